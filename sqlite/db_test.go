package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

func open(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestOpenMigratesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	var wg sync.WaitGroup
	for range 8 { // starting at the same time
		wg.Go(func() {
			db, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	open(t, path)
}

// Keys are hashed and secrets are among what is stored, so others of the same
// machine have no business in it.
func TestFilesAreTheirOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	open(t, path)
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s is %o", filepath.Base(name), mode)
		}
	}
}

func TestNewerFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	open(t, path)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Exec("PRAGMA user_version = 999"); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "version 999") || !strings.Contains(err.Error(), "newer") {
		t.Errorf("got error %v, want one that names the version and what to do", err)
	}
}

func TestAnyFileName(t *testing.T) {
	for _, name := range []string{"a b.db", "100%.db", "q?mode=memory.db", "#x.db", "ä&_pragma=x.db"} {
		path := filepath.Join(t.TempDir(), name)
		db := open(t, path)
		_, err := catalogstore.New(db).Get(t.Context(), catalog.RecordKey{Kind: catalog.KindEntity, ID: "x"})
		if !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%s: got error %v", name, err)
		}
		if found, err := filepath.Glob(strings.ReplaceAll(path, "?", "[?]")); err != nil || len(found) != 1 {
			t.Errorf("%s: files %q, %v", name, found, err)
		}
	}
	if _, err := sqlite.Open(t.Context(), ""); err == nil {
		t.Error("no name at all was taken")
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "x.db")); err == nil {
		t.Error("a file in a folder that is not there was opened")
	}
}
