package catalogstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// TestTotalsOfAnOlderFile opens a file from before there were totals.
func TestTotalsOfAnOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	open(t, path)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, statement := range []string{
		`DROP VIEW catalog_usage`, `DROP TABLE catalog_series`, `DROP TABLE catalog_bin`,
		`CREATE TABLE catalog_usage (
			namespace TEXT NOT NULL, span TEXT NOT NULL, entity TEXT NOT NULL, resource TEXT NOT NULL, lim TEXT NOT NULL,
			start INTEGER NOT NULL, amount INTEGER NOT NULL, count INTEGER NOT NULL,
			PRIMARY KEY (namespace, span, entity, resource, lim, start)
		) STRICT, WITHOUT ROWID`,
		`ALTER TABLE slot_plan DROP COLUMN dispatched`,
		`DROP INDEX slot_failed`,
		`DROP INDEX slot_unknown`, `ALTER TABLE slot DROP COLUMN sent`, `ALTER TABLE slot_version DROP COLUMN target`,
		`PRAGMA user_version = 3`,
		`INSERT INTO catalog_usage VALUES
			('n', 'hour', 'alice', 'api', 'rpm', 90000, 1000, 1), ('n', 'day', 'alice', 'api', 'rpm', 86400, 5000, 3),
			('n', 'day', 'alice', 'api', 'rpm', 172800, 7000, 4), ('n', 'day', 'bob', 'api', 'rpm', 172800, 1000, 1)`,
	} {
		if _, err := raw.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	c := catalogstore.New(open(t, path))
	rows, err := c.Totals(t.Context(), "n", []catalog.Series{{Entity: "alice", Resource: "api", Limit: "rpm"}, {Entity: "bob", Resource: "api", Limit: "rpm"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]int64{}
	for _, r := range rows {
		got[r.Entity] = [2]int64{r.Amount, r.Count}
		if !r.Last.IsZero() {
			t.Errorf("%s was last taken at %s, which nobody knows", r.Entity, r.Last)
		}
	}
	if len(got) != 2 || got["alice"] != [2]int64{12000, 7} || got["bob"] != [2]int64{1000, 1} {
		t.Errorf("totals are %v, want the sums of the days", got)
	}
}
