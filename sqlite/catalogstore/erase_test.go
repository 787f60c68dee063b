package catalogstore_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// TestErasedNamesLeaveTheFiles erases some of many entities, and looks for their
// names in the bytes of the files.
func TestErasedNamesLeaveTheFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	store := catalogstore.New(open(t, path))
	c, err := catalog.Open(t.Context(), catalog.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	edit := c.Edit("default", catalog.By{Actor: "test"})
	const entities = 300
	name := func(i int) string { return fmt.Sprintf("somebody-%03d-with-a-name", i*131%entities) }
	for i := range entities {
		if _, err := edit.CreateEntity(t.Context(), catalog.Entity{ID: name(i)}); err != nil {
			t.Fatal(err)
		}
		for _, resource := range []string{"api", "web", "mail"} {
			recorder.Consumed(sluice.Key{Namespace: "default", Entity: name(i), Resource: resource, Limit: "rpm"},
				sluice.MustParse("100/minute"), sluice.Consumption{Amount: sluice.Tokens(1), Take: true, Taken: time.Now()})
		}
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	found := func(name string) (where []string) {
		for _, file := range []string{path, path + "-wal", path + "-shm"} {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(content, []byte(name)); n > 0 {
				where = append(where, fmt.Sprintf("%s: %d times", filepath.Base(file), n))
			}
		}
		return where
	}
	if len(found(name(0))) == 0 {
		t.Fatal("a name is not found before it is erased")
	}
	for i := 0; i < entities; i += 7 {
		if _, err := edit.Erase(t.Context(), name(i), catalog.RefuseChildren); err != nil {
			t.Fatal(err)
		}
		if where := found(name(i)); where != nil {
			t.Errorf("%s is still in %v", name(i), where)
		}
	}
}

// TestMigratedFilesAreRewritten: an earlier version did not overwrite what it
// deleted.
func TestMigratedFilesAreRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	open(t, path)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, statement := range []string{
		`PRAGMA secure_delete = off`,
		`INSERT INTO catalog_version VALUES ('somebody-erased', 1)`, `DELETE FROM catalog_version`,
		`DROP VIEW catalog_usage`, `DROP TABLE catalog_series`, `DROP TABLE catalog_bin`,
		`CREATE TABLE catalog_usage (namespace, span, entity, resource, lim, start, amount, count, last)`,
		`DROP INDEX slot_unknown`, `ALTER TABLE slot DROP COLUMN sent`, `ALTER TABLE slot_version DROP COLUMN target`,
		`PRAGMA user_version = 6`, `PRAGMA wal_checkpoint(TRUNCATE)`,
	} {
		if _, err := raw.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	has := func() bool {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(content, []byte("somebody-erased"))
	}
	if !has() {
		t.Fatal("the name is overwritten without a migration")
	}
	if err := open(t, path).Truncate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the name is still in the file after a migration")
	}
}
