package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
)

// mostLabels is how many combinations of tier, resource and limit are told
// apart.
const mostLabels = 500

// Takes counts decisions, as a [sluice.Observer], for Prometheus.
type Takes struct {
	several
	decided  [sources][outcomes]prometheus.Counter
	failed   prometheus.Counter
	duration [sources]prometheus.Observer
	cost     prometheus.Counter
	refunded prometheus.Counter
	served   prometheus.Observer // how long who was served has waited
	givenUp  prometheus.Observer // how long who was not has

	refusals *prometheus.CounterVec
	labels   sync.Map // of refusalLabels to prometheus.Counter
	known    atomic.Int32
}

const (
	sources  = int(sluice.Unknown) + 1
	allowed  = 0
	refused  = 1
	outcomes = 2
)

type refusalLabels struct{ tier, resource, limit string }

var (
	_ sluice.Observer      = (*Takes)(nil)
	_ prometheus.Collector = (*Takes)(nil)
)

// NewTakes returns an observer to register with Prometheus.
func NewTakes() *Takes {
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_takes_total",
		Help: "Takes by outcome (allowed, refused) and by where the decision came from.",
	}, []string{"outcome", "source"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_take_duration_seconds",
		Help:    "Time to decide a take, by where the decision came from.",
		Buckets: []float64{1e-6, 1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5},
	}, []string{"source"})
	waits := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_wait_duration_seconds",
		Help:    "Time that callers waited in line, by outcome: served, or given_up because their time was over or they had gone.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"outcome"})
	t := &Takes{
		served: waits.WithLabelValues("served"), givenUp: waits.WithLabelValues("given_up"),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_take_errors_total", Help: "Takes that got no decision.",
		}),
		cost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_consumed_tokens_total", Help: "Tokens consumed, over all limits.",
		}),
		refunded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_refunded_tokens_total", Help: "Tokens given back, over all limits.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_refusals_total",
			Help: "Refused takes by tier, resource and the limit that decided; beyond the first 500 combinations all are other.",
		}, []string{"tier", "resource", "limit"}),
	}
	for s := range sources {
		name := sluice.Source(s).String()
		t.decided[s][allowed] = decided.WithLabelValues("allowed", name)
		t.decided[s][refused] = decided.WithLabelValues("refused", name)
		t.duration[s] = duration.WithLabelValues(name)
	}
	t.several = several{decided, duration, waits, t.failed, t.cost, t.refunded, t.refusals}
	return t
}

// Decided counts a take.
func (t *Takes) Decided(take *sluice.Take, d *sluice.Decision, err error, took time.Duration) {
	if err != nil {
		t.failed.Inc()
		return
	}
	source := min(int(d.Source), sources-1)
	t.duration[source].Observe(took.Seconds())
	if d.Allowed {
		t.decided[source][allowed].Inc()
		return
	}
	t.decided[source][refused].Inc()
	key := &take.Demands[d.Decider].Key
	t.refusal(refusalLabels{take.Tier, key.Resource, key.Limit}).Inc()
}

// refusal is the counter for some labels, as long as there are not too many.
func (t *Takes) refusal(l refusalLabels) prometheus.Counter {
	if c, ok := t.labels.Load(l); ok {
		return c.(prometheus.Counter)
	}
	if t.known.Add(1) > mostLabels {
		t.known.Add(-1)
		return t.refusals.WithLabelValues(other, other, other)
	}
	c, loaded := t.labels.LoadOrStore(l, t.refusals.WithLabelValues(label(l.tier), label(l.resource), label(l.limit)))
	if loaded {
		t.known.Add(-1)
	}
	return c.(prometheus.Counter)
}

// Waited counts a caller that had to wait in line.
func (t *Takes) Waited(_ *sluice.Take, waited time.Duration, served bool) {
	if served {
		t.served.Observe(waited.Seconds())
	} else {
		t.givenUp.Observe(waited.Seconds())
	}
}

// Consumed adds up tokens.
func (t *Takes) Consumed(_ sluice.Key, _ sluice.Limit, c sluice.Consumption) {
	if n := c.Amount; n > 0 {
		t.cost.Add(float64(n) / float64(sluice.Token))
	} else {
		t.refunded.Add(-float64(n) / float64(sluice.Token))
	}
}
