package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
)

// Waiting shows who waits in line for limiters of this process now. How long
// callers have waited is in [Takes].
func Waiting(limiters ...*sluice.Limiter) prometheus.Collector {
	return figures(func(w *sheet) {
		var all sluice.Queue
		for _, l := range limiters {
			q := l.WaitingAll()
			all.Length += q.Length
			all.Longest = max(all.Longest, q.Longest)
		}
		add(w, "sluice_waiting_callers", "Callers of this process that wait in line now.", all.Length)
		add(w, "sluice_waiting_longest_seconds", "How long the caller has waited that has waited longest of those that wait now.", all.Longest.Seconds())
	})
}
