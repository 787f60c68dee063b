package catalogstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/catalog/catalogtest"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// Tests that kill a process start this test binary again with helperVariable,
// which names the file that it is to write to.
const helperVariable = "SLUICE_SQLITE_TEST_CATALOG"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperVariable); path != "" {
		db, err := sqlite.Open(context.Background(), path)
		if err == nil {
			err = catalogtest.WriteForEver(context.Background(), catalogstore.New(db), os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestCatalogSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	catalogtest.Crash(t, func(tb testing.TB) catalog.Store { return catalogstore.New(open(tb, path)) }, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperVariable+"="+path)
		cmd.Stderr = os.Stderr
		return cmd
	})
}
