package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// Takes counts decisions, as a [sluice.Observer], for Prometheus.
type Takes struct {
	several
	tiers    bounded[string, *tierTakes]
	refusals bounded[limitLabels, prometheus.Counter]
	shadows  bounded[limitLabels, prometheus.Counter]
	failed   prometheus.Counter
	duration [sources]prometheus.Observer
	cost     prometheus.Counter
	refunded prometheus.Counter
	served   prometheus.Observer // how long who was served has waited
	givenUp  prometheus.Observer // how long who was not has
}

// tierTakes are the takes of callers with one tier.
type tierTakes struct {
	decided [sources][len(takeOutcomes)]prometheus.Counter
	cost    prometheus.Observer
}

const (
	sources = int(sluice.Unknown) + 1

	allowed = iota - 1
	refused
	shadowed
)

var takeOutcomes = [...]httplimit.Outcome{httplimit.Allowed, httplimit.Refused, httplimit.Shadowed}

type limitLabels struct{ tier, resource, limit string }

// limitCounters returns counters by tier, resource and limit.
func limitCounters(name, help string) (bounded[limitLabels, prometheus.Counter], prometheus.Collector) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name, Help: help + "; beyond the first 500 combinations all are other.",
	}, []string{"tier", "resource", "limit"})
	return bounded[limitLabels, prometheus.Counter]{
		of: func(l limitLabels) prometheus.Counter {
			return all.WithLabelValues(label(l.tier), label(l.resource), label(l.limit))
		},
		rest: func() prometheus.Counter { return all.WithLabelValues(other, other, other) },
	}, all
}

var (
	_ sluice.Observer      = (*Takes)(nil)
	_ prometheus.Collector = (*Takes)(nil)
)

// NewTakes returns an observer to register with Prometheus.
func NewTakes() *Takes {
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_takes_total",
		Help: "Takes by outcome (allowed, refused, or shadowed: allowed because the limit is a shadow), by where the decision came from, and by tier.",
	}, []string{"outcome", "source", "tier"})
	costs := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_take_cost_tokens",
		Help:    "Cost of takes, of the limit that it is highest for, by tier.",
		Buckets: []float64{1, 2, 5, 10, 25, 100, 1000, 1e4, 1e5, 1e6},
	}, []string{"tier"})
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
	}
	var refusals, shadows prometheus.Collector
	t.refusals, refusals = limitCounters("sluice_refusals_total", "Refused takes by tier, resource and the limit that decided")
	t.shadows, shadows = limitCounters("sluice_shadow_refusals_total", "Takes that a shadow limit would have refused, by tier, resource and limit")
	for s := range sources {
		t.duration[s] = duration.WithLabelValues(sluice.Source(s).String())
	}
	ofTier := func(tier string) *tierTakes {
		of := &tierTakes{cost: costs.WithLabelValues(label(tier))}
		for s := range sources {
			for o, outcome := range takeOutcomes {
				of.decided[s][o] = decided.WithLabelValues(outcome.String(), sluice.Source(s).String(), label(tier))
			}
		}
		return of
	}
	t.tiers = bounded[string, *tierTakes]{most: mostTiers, of: ofTier, rest: func() *tierTakes { return ofTier(other) }}
	t.tiers.get("") // so that there are figures before the first take
	t.several = several{decided, costs, duration, waits, t.failed, t.cost, t.refunded, refusals, shadows}
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
	var cost int64
	outcome := allowed
	for i := range take.Demands {
		demand := &take.Demands[i]
		cost = max(cost, demand.Charge().Thousandths())
		if demand.Shadow && i < len(d.Results) && !d.Results[i].Fits {
			outcome = shadowed
			t.shadows.get(limitLabels{take.Tier, demand.Key.Resource, demand.Key.Limit}).Inc()
		}
	}
	if !d.Allowed {
		outcome = refused
		key := &take.Demands[d.Decider].Key
		t.refusals.get(limitLabels{take.Tier, key.Resource, key.Limit}).Inc()
	}
	tier := t.tiers.get(take.Tier)
	tier.cost.Observe(float64(cost) / float64(sluice.Token))
	tier.decided[source][outcome].Inc()
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
	if n := c.Amount.Thousandths(); n > 0 {
		t.cost.Add(float64(n) / float64(sluice.Token))
	} else {
		t.refunded.Add(-float64(n) / float64(sluice.Token))
	}
}
