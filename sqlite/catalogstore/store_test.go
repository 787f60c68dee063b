package catalogstore_test

import (
	"path/filepath"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/catalog/catalogtest"
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

func TestCatalog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	catalogtest.Run(t, func(tb testing.TB) catalog.Store { return catalogstore.New(open(tb, path)) })
}
