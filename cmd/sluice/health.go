package main

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/pressure"
)

// logHealth writes a line about the node every so often, until it is closed. 0
// is never.
func (s *stack) logHealth(every time.Duration, log *slog.Logger) {
	if every == 0 {
		return
	}
	work := background.New()
	s.closers = append(s.closers, work.Close)
	before := counted(s.registry)
	work.Go(func() {
		for backoff.Sleep(work.Life(), every) {
			now := counted(s.registry)
			since := func(name string) int64 { return int64(now[name] - before[name]) }
			args := []any{
				"allowed", since("allowed") + since("shadowed"), "refused", since("refused"), "errors", since("sluice_take_errors_total"),
				"near_limit", int64(now["warning"] + now["critical"]), "policy_current", now["sluice_policy_current"] == 1,
				"memory", pressure.Live(),
			}
			if s.degraded != nil {
				args = append(args, "store", s.degraded.State().String(), "degraded", since("degraded")+since("unknown"))
			}
			log.Info("health", args...)
			before = now
		}
	})
}

// counted adds up the figures of a health line: each by its name, and by the
// values of its labels.
func counted(from prometheus.Gatherer) map[string]float64 {
	families, _ := from.Gather() //nolint:errcheck // it has what could be gathered
	sums := map[string]float64{}
	for _, f := range families {
		switch f.GetName() {
		case "sluice_takes_total", "sluice_take_errors_total", "sluice_buckets_near_limit", "sluice_policy_current":
		default:
			continue
		}
		for _, m := range f.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			sums[f.GetName()] += value
			for _, l := range m.GetLabel() {
				if l.GetName() != "tier" { // which callers name
					sums[l.GetValue()] += value
				}
			}
		}
	}
	return sums
}
