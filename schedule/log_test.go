package schedule_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	pgslots "github.com/sluice-go/sluice/postgres/slotstore"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	sqliteslots "github.com/sluice-go/sluice/sqlite/slotstore"
)

// embedded is a scheduler on a file of its own, and what it logs.
func embedded(t *testing.T) (*schedule.Scheduler, *bytes.Buffer) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "slots.db"))
	if err != nil {
		t.Fatal(err)
	}
	slots := sqliteslots.New(db)
	t.Cleanup(func() {
		slots.Close() //nolint:errcheck // it answers nil
		db.Close()    //nolint:errcheck // the file goes away
	})
	var log bytes.Buffer
	s, err := schedule.New(schedule.Config{Store: slots, Log: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// TestLogMessages looks for the messages that operators know.
func TestLogMessages(t *testing.T) {
	s, log := embedded(t)
	closed := &schedule.Calendar{Blackouts: []schedule.Blackout{{From: noon.Add(4 * time.Second), To: noon.AddDate(3, 0, 0)}}}
	for _, n := range []int{100, 1} {
		if _, err := s.SetPlan(t.Context(), schedule.Plan{MaxPerWindow: n, Calendar: closed}); err != nil {
			t.Fatal(err)
		}
	}
	for _, event := range []string{"first", "second"} {
		s.Assign(t.Context(), schedule.Request{Event: event}) //nolint:errcheck // the second has no room
	}
	for _, want := range []string{
		`level=INFO msg="Config cache miss for default, loaded from DB"`,
		`level=INFO msg="Config updated: default maxPerWindow=100->1"`,
		`level=ERROR msg="Lookahead exhausted for event second, searched 1 windows"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}

// TestContendedWindowsAreSkipped locks a window as another writer would.
func TestContendedWindowsAreSkipped(t *testing.T) {
	ctx := t.Context()
	address := postgrestest.Database(t)
	store, err := pgslots.Open(ctx, postgres.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log bytes.Buffer
	s, err := schedule.New(schedule.Config{Store: store, Log: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetPlan(ctx, schedule.Plan{Headroom: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Assign(ctx, schedule.Request{Event: "first", At: noon}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing depends on it
	if _, err := conn.Exec(ctx, "BEGIN; SELECT * FROM sluice.slot_window ORDER BY start LIMIT 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{4, 8} {
		if i == 1 { // and in batches
			if _, err := conn.Exec(ctx, "SELECT * FROM sluice.slot_window ORDER BY start LIMIT 2 FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
		}
		rs := make([]schedule.Request, 20)
		for j := range rs {
			rs[j] = schedule.Request{Event: fmt.Sprint("e", i, "-", j), At: noon}
		}
		slot, err := s.Assign(ctx, schedule.Request{Event: fmt.Sprint("one", i), At: noon})
		if err != nil || slot.Window != noon.Add(want*time.Second) {
			t.Fatalf("%v: window %s, want the one after those in use", err, slot.Window)
		}
		results, err := s.AssignBatch(ctx, rs)
		if err != nil || results[19].Slot.Window != noon.Add(want*time.Second) {
			t.Fatalf("%v: window %s, want the one after those in use", err, results[19].Slot.Window)
		}
	}
	if want := `level=WARN msg="Window contention on 2026-03-02T12:00:00Z, skipping to next"`; !strings.Contains(log.String(), want) {
		t.Errorf("no %s in\n%s", want, &log)
	}
	if n := s.Stats().Snapshot().Contention; n < 4 {
		t.Errorf("%d windows were skipped, want at least 4", n)
	}
	// With everything in reach in use, it gives up and says so.
	if _, err := conn.Exec(ctx, "SELECT * FROM sluice.slot_window FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Assign(ctx, schedule.Request{Event: "none", At: noon})
	var exhausted *schedule.ExhaustedError
	if !errors.As(err, &exhausted) {
		t.Errorf("got %v, want exhaustion", err)
	}
}

func TestHistogramForPeopleAndPrograms(t *testing.T) {
	s, _ := embedded(t)
	if _, err := s.SetPlan(t.Context(), schedule.Plan{MaxPerWindow: 5, Calendar: &schedule.Calendar{
		Blackouts: []schedule.Blackout{{From: noon.Add(8 * time.Second), To: noon.Add(12 * time.Second)}},
	}}); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		if _, err := s.Assign(t.Context(), schedule.Request{Event: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Load(t.Context(), "", noon, 4*time.Second, 4)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := h.Write(&text, 53); err != nil {
		t.Fatal(err)
	}
	want := `plan default, 4s a line
2026-03-02 12:00:00Z  ██████████ 5/5 100%
2026-03-02 12:00:04Z  ████······ 2/5  40%
2026-03-02 12:00:08Z             closed
2026-03-02 12:00:12Z  ·········· 0/5   0%
`
	if text.String() != want {
		t.Errorf("got\n%s", &text)
	}
	b, err := json.Marshal(h)
	if err != nil || !strings.HasPrefix(string(b), `{"plan":"default","bars":[{"from":"2026-03-02T12:00:00Z","events":5,"capacity":5}`) || !strings.HasSuffix(string(b), `"step":"4s"}`) {
		t.Errorf("%v: %s", err, b)
	}
}

func TestPlanJSON(t *testing.T) {
	var p schedule.Plan
	if err := json.Unmarshal([]byte(`{"name": "bulk", "maxPerWindow": 200, "windowSize": "4s", "calendar": {"zone": "Europe/Madrid", "hours": {"monday": ["09:00-17:00"]}}}`), &p); err != nil {
		t.Fatal(err)
	}
	if p.WindowSize != 4*time.Second || p.Calendar.Hours["monday"][0] != "09:00-17:00" {
		t.Errorf("got %+v", p)
	}
	b, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(b), `"windowSize":"4s"`) {
		t.Errorf("%v: %s", err, b)
	}
	if err := json.Unmarshal([]byte(`{"windowSize": "4 seconds"}`), &p); err == nil {
		t.Error("a bad window size was read")
	}
	b, err = json.Marshal([]schedule.Result{{Slot: schedule.Slot{Event: "e", State: schedule.Running}}, {Err: &schedule.ExhaustedError{Event: "f", Plan: "p", Depth: 7}}})
	if err != nil || !strings.Contains(string(b), `"state":"running"`) || !strings.Contains(string(b), `{"error":"plan p: no room for event f in 7 windows`) {
		t.Errorf("%v: %s", err, b)
	}
}
