package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
)

// Replays shows what this node did with requests that bring an idempotency
// key, and with outgoing calls that are sent once.
func Replays(k *idempotency.Keeper) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_idempotent_requests_total", help: "Requests with an idempotency key, by what became of them.", label: "outcome"},
		{name: "sluice_idempotent_released_total", help: "Runs after which nothing was stored."},
		{name: "sluice_idempotent_lost_total", help: "Runs that ended after their claim was lost."},
		{name: "sluice_idempotent_stored_bytes_total", help: "Bytes of responses stored."},
		{name: "sluice_idempotent_replayed_bytes_total", help: "Bytes of bodies replayed."},
		{name: "sluice_outgoing_calls_total", help: "Outgoing calls that were accepted."},
		{name: "sluice_outgoing_tries_total", help: "Attempts at outgoing calls."},
	}, func(add func(int, float64, ...string)) {
		st := k.Local()
		for _, o := range []struct {
			name string
			n    int64
		}{
			{"first run", st.FirstRuns}, {"replay", st.Replays}, {"conflict", st.Conflicts}, {"mismatch", st.Mismatches},
			{"takeover", st.Takeovers}, {"unknown", st.Unknown}, {"not kept", st.NotKept}, {"unavailable", st.Unavailable},
		} {
			add(0, float64(o.n), o.name)
		}
		for i, n := range []int64{st.Released, st.Lost, st.BytesStored, st.BytesReplayed, st.Sent, st.Tries} {
			add(1+i, float64(n))
		}
	})
}

// Refusals shows how the log of refused requests keeps up.
func Refusals(a *httplimit.Audit) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_refusal_log_dropped_total", help: "Refused requests that were not written down, because too many waited for it."},
	}, func(add func(int, float64, ...string)) { add(0, float64(a.Dropped())) })
}

// Sanctions counts what was done about abusive callers, for Prometheus. Give
// its Told to the guard as Audit, and the guard to it with Watch.
type Sanctions struct {
	begun, lifted *prometheus.CounterVec
	current       prometheus.Collector
	guard         *abuse.Guard
}

var _ prometheus.Collector = (*Sanctions)(nil)

// NewSanctions counts none yet.
func NewSanctions() *Sanctions {
	s := &Sanctions{
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_sanctions_begun_total", Help: "Sanctions that began, by kind.",
		}, []string{"kind"}),
		lifted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_sanctions_lifted_total", Help: "Sanctions that somebody lifted, by kind.",
		}, []string{"kind"}),
	}
	for _, kind := range sanctions {
		s.begun.WithLabelValues(string(kind))
		s.lifted.WithLabelValues(string(kind))
	}
	s.current = collect([]figure{
		{name: "sluice_sanctions", help: "Sanctions in force, by kind.", label: "kind"},
	}, s.count)
	return s
}

var sanctions = []abuse.Kind{abuse.Ban, abuse.Emergency}

// Watch has it show the sanctions of a guard that are in force. It must be
// called before the Sanctions are registered.
func (s *Sanctions) Watch(g *abuse.Guard) { s.guard = g }

// Told counts a sanction that begins or is lifted.
func (s *Sanctions) Told(e abuse.Event) {
	if e.Lifted {
		s.lifted.WithLabelValues(string(e.Kind)).Inc()
		return
	}
	s.begun.WithLabelValues(string(e.Kind)).Inc()
}

func (s *Sanctions) count(add func(int, float64, ...string)) {
	if s.guard == nil {
		return
	}
	n := map[abuse.Kind]float64{}
	for _, sanction := range s.guard.List() {
		n[sanction.Kind]++
	}
	for _, kind := range sanctions {
		add(0, n[kind], string(kind))
	}
}

// Describe tells the names.
func (s *Sanctions) Describe(ch chan<- *prometheus.Desc) {
	s.begun.Describe(ch)
	s.lifted.Describe(ch)
	s.current.Describe(ch)
}

// Collect sends the present figures.
func (s *Sanctions) Collect(ch chan<- prometheus.Metric) {
	s.begun.Collect(ch)
	s.lifted.Collect(ch)
	s.current.Collect(ch)
}
