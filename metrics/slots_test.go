package metrics_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

func TestSlots(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "slots.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	slots := slotstore.New(db)
	defer slots.Close()
	s, err := schedule.New(schedule.Config{Store: slots, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetPlan(t.Context(), schedule.Plan{MaxPerWindow: 1}); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"a", "b", "c"} {
		if _, err := s.Assign(t.Context(), schedule.Request{Event: event}); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Slots(s))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		switch f.GetName() {
		case "rate_limiter_slot_assignment_duration_seconds", "rate_limiter_window_lookahead_depth":
			if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 3 {
				t.Errorf("%s has %d samples, want 3", f.GetName(), n)
			}
		case "rate_limiter_config_cache_misses_total":
			if n := f.GetMetric()[0].GetCounter().GetValue(); n != 1 {
				t.Errorf("%v misses, want 1", n)
			}
		}
	}
	want := []string{
		"rate_limiter_config_cache_hits_total", "rate_limiter_config_cache_misses_total",
		"rate_limiter_slot_assignment_duration_seconds", "rate_limiter_slot_assignment_failures_total",
		"rate_limiter_slots_abandoned_total", "rate_limiter_slots_broken", "rate_limiter_slots_leaked", "rate_limiter_window_contention_total", "rate_limiter_window_lookahead_depth",
	}
	if !slices.Equal(names, want) {
		t.Errorf("metrics are %v, want %v", names, want)
	}
}
