package slotstore

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/sqlite"
)

// TestSweepPlans asks SQLite how it finds what a sweep removes: by an index
// that has the right order, never by reading a whole table or sorting.
func TestSweepPlans(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "slots.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sweeps := New(db).Sweeps()
	for name, s := range map[string]struct {
		indexes string
		args    []any
	}{
		"slots":             {"slot_by_end", []any{1, 1000, 10}},
		"runs":              {"PRIMARY", []any{1, 1000, 10}},
		"run":               {"PRIMARY", []any{1, 1000}},
		"windows looked at": {"PRIMARY", []any{1, 0, 1000, 10}},
		"empty windows":     {"PRIMARY slot_by_time", []any{1, 0, 1000, 1000}},
		"windows":           {"PRIMARY slot_by_time", []any{1, 1000}},
		"entries looked at": {"slot_audit_by_plan", []any{1, 0, 10}},
		"entries":           {"slot_audit_by_plan", []any{1, 0, 10, 1000}},
	} {
		statement := sqldb.SQLite(sweeps[name])
		rows, err := db.Reader().Query("EXPLAIN QUERY PLAN "+statement, s.args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		if strings.Contains(text, "SCAN slot") || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("it reads or sorts a table:\n%s\n%s", statement, text)
		}
		for index := range strings.FieldsSeq(s.indexes) {
			if !strings.Contains(text, index+" ") {
				t.Errorf("%s is not used:\n%s\n%s", index, statement, text)
			}
		}
	}
}
