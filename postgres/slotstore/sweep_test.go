package slotstore_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/postgres/slotstore"
)

// loadSlots makes two plans. In each second of the first one there is a window;
// every second one has a slot, and of ten slots nine are finished. The others
// are what a sweep must not read again and again. Window n begins at n seconds.
const loadSlots = `
	INSERT INTO sluice.slot_plan (namespace, name, version, eras) VALUES ('', 'p', 1, '[]'), ('', 'q', 1, '[]');
	INSERT INTO sluice.slot_window (plan, start, size, cap, used, room)
	SELECT p, 1000000::bigint * i, 1000000, 1, 0, true FROM generate_series(1, 2) p, generate_series(1, 10000) i;
	INSERT INTO sluice.slot_run (plan, start, stop)
	SELECT p, 1000000::bigint * i, 1000000::bigint * (i + 1) FROM generate_series(1, 2) p, generate_series(1, 10000, 2) i;
	INSERT INTO sluice.slot (plan, win, at, requested, created, due, version, state, namespace, event)
	SELECT p, 1000000::bigint * i, 1000000::bigint * i + 5, 0, 0, 1000000::bigint * (i + 1), 1,
		CASE WHEN i % 20 = 0 THEN 0 ELSE 2 END, '', 'e' || p || '-' || i
	FROM generate_series(1, 2) p, generate_series(2, 10000, 2) i;
	INSERT INTO sluice.slot_audit (time, namespace, plan, event, action)
	SELECT 1000000::bigint * i, '', 1 + i % 2, 'e' || i, 'done' FROM generate_series(1, 20000) i;`

var badSweep = regexp.MustCompile(`Seq Scan|Sort|Materialize|Hash|Merge`)

// TestSweepPlans looks at how each statement of a sweep finds its rows, and how
// much it reads: that must not depend on what is left alone.
func TestSweepPlans(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address, MaxConns: 2})
	postgrestest.Exec(t, address, loadSlots)
	const middle = 5_000_000_000 // half of the windows are over
	check := func(t *testing.T) {
		for name, call := range map[string]struct {
			indexes string
			pages   int // 100 rows wherever they are, steps down to them, and indexes to change
			args    []any
		}{
			"slots":             {"slot_by_end slot_pkey", 100 * 12, []any{1, middle, 100}},
			"runs":              {"slot_run_pkey", 100 * 12, []any{1, middle, 100}},
			"run":               {"slot_run_pkey slot_window_pkey", 30, []any{1, middle}},
			"windows looked at": {"slot_window_pkey", 200, []any{1, middle / 2, middle, 100}},
			"empty windows":     {"slot_window_pkey slot_by_time", 100 * 12, []any{1, middle / 2, middle/2 + 100_000_000, middle}},
			"windows":           {"slot_window_pkey slot_by_time", 12, []any{1, 1_000_000}},
			"entries looked at": {"slot_audit_by_plan", 200, []any{1, 0, 100}},
			"entries":           {"slot_audit_by_plan", 100 * 12, []any{1, 0, 200, middle}},
		} {
			plan, err := slotstore.ExplainSweep(t.Context(), s, s.Sweeps()[name], call.args...)
			if err != nil {
				t.Fatal(name, err)
			}
			if bad := badSweep.FindString(plan); bad != "" {
				t.Errorf("%s: there is a %q:\n%s", name, bad, plan)
			}
			for index := range strings.FieldsSeq(call.indexes) {
				if !strings.Contains(plan, " "+index+" ") {
					t.Errorf("%s: %s is not used:\n%s", name, index, plan)
				}
			}
			n := postgrestest.Pages(plan)
			if n > call.pages {
				t.Errorf("%s: %d pages were read, want at most %d:\n%s", name, n, call.pages, plan)
			}
			t.Logf("%-18s %4d pages", name, n)
		}
	}
	t.Run("without statistics", check)
	postgrestest.Exec(t, address, "ANALYZE sluice.slot, sluice.slot_window, sluice.slot_run, sluice.slot_audit")
	t.Run("with statistics", check)
}
