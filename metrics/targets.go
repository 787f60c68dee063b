package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/schedule/target"
)

// Targets shows how the targets of plans are called.
func Targets(r *target.Runner) prometheus.Collector {
	return figures(func(w *sheet) {
		st := r.Stats()
		by(w, "rate_limiter_target_calls_total", "Calls of targets by what became of them.", "outcome", st.Calls)
		add(w, "rate_limiter_targets", "Plans whose targets this server calls.", st.Targets)
		add(w, "rate_limiter_targets_unusable", "Plans whose targets this server cannot call.", st.Unusable)
		add(w, "rate_limiter_slots_unknown", "Events that may have been executed, when last looked for; up to 1000 of a plan.", st.InDoubt)
	})
}
