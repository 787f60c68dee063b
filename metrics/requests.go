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
	return figures(func(w *sheet) {
		st := k.Local()
		by(w, "sluice_idempotent_requests_total", "Requests with an idempotency key, by outcome.", "outcome", map[string]int64{
			"first_run": st.FirstRuns, "replay": st.Replays, "conflict": st.Conflicts, "mismatch": st.Mismatches,
			"takeover": st.Takeovers, "unknown": st.Unknown, "not_kept": st.NotKept, "unavailable": st.Unavailable,
		})
		add(w, "sluice_idempotent_released_total", "Runs after which nothing was stored.", st.Released)
		add(w, "sluice_idempotent_lost_total", "Runs that ended after their claim was lost.", st.Lost)
		add(w, "sluice_idempotent_stored_bytes_total", "Bytes of responses stored.", st.BytesStored)
		add(w, "sluice_idempotent_replayed_bytes_total", "Bytes of bodies replayed.", st.BytesReplayed)
		add(w, "sluice_outgoing_calls_total", "Outgoing calls that were accepted.", st.Sent)
		add(w, "sluice_outgoing_tries_total", "Attempts at outgoing calls.", st.Tries)
	})
}

// Requests counts the requests that a gate has decided, for Prometheus. Give
// its Decided to [httplimit.Config].
type Requests struct {
	several
	all      bounded[requestLabels, prometheus.Counter]
	refusals bounded[endpointLabels, prometheus.Counter]
}

type (
	requestLabels  struct{ outcome, tier, caller, source string }
	endpointLabels struct{ endpoint, outcome string }
)

// NewRequests returns counters without a series.
func NewRequests() *Requests {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_requests_total",
		Help: "Requests decided by the policy, by outcome, tier, kind of caller (key, user, ip; none if nobody had to know) " +
			"and where the decision came from (none if no limit was asked); beyond the first 500 combinations all are other.",
	}, []string{"outcome", "tier", "caller", "source"})
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_requests_refused_total",
		Help: "Requests that did not pass, or would not have if a limit were not a shadow, by endpoint of the policy and outcome; beyond the first 500 combinations all are other.",
	}, []string{"endpoint", "outcome"})
	return &Requests{
		several: several{all, refusals},
		all: bounded[requestLabels, prometheus.Counter]{
			of: func(l requestLabels) prometheus.Counter {
				return all.WithLabelValues(l.outcome, label(l.tier), l.caller, l.source)
			},
			rest: func() prometheus.Counter { return all.WithLabelValues(other, other, other, other) },
		},
		refusals: bounded[endpointLabels, prometheus.Counter]{
			of: func(l endpointLabels) prometheus.Counter {
				return refusals.WithLabelValues(label(l.endpoint), l.outcome)
			},
			rest: func() prometheus.Counter { return refusals.WithLabelValues(other, other) },
		},
	}
}

// Decided counts a request.
func (r *Requests) Decided(c *httplimit.Call) {
	l := requestLabels{outcome: c.Outcome.String(), tier: c.Tier, caller: "none", source: "none"}
	if c.Identity.Entity != "" {
		l.caller = c.Identity.Kind.String()
	}
	if len(c.Decision.Results) > 0 {
		l.source = c.Decision.Source.String()
	}
	r.all.get(l).Inc()
	if !c.Outcome.Passes() || c.Outcome == httplimit.Shadowed {
		r.refusals.get(endpointLabels{c.Route.Endpoint, l.outcome}).Inc()
	}
}

// Refusals shows how the log of refused requests keeps up.
func Refusals(a *httplimit.Audit) prometheus.Collector {
	return figures(func(w *sheet) {
		add(w, "sluice_refusal_log_dropped_total", "Refused requests that were not logged because too many were waiting to be.", a.Dropped())
	})
}

// Logins shows how many credentials were not valid.
func Logins(l *abuse.Logins) prometheus.Collector {
	return figures(func(w *sheet) {
		by(w, "sluice_failed_logins_total", "Credentials that were not valid, by kind: a key or token of a request that the policy limits, or anything at the HTTP API.", "kind", l.Counts())
	})
}

// Sanctions counts what was done about abusive callers, for Prometheus. Give
// its Told to the guard as Audit, and the guard to it with Watch.
type Sanctions struct {
	several
	begun, lifted *prometheus.CounterVec
	guard         *abuse.Guard
}

var _ prometheus.Collector = (*Sanctions)(nil)

// NewSanctions returns counters that are all zero.
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
	s.several = several{s.begun, s.lifted, figures(s.count)}
	return s
}

var sanctions = []abuse.Kind{abuse.Ban, abuse.Emergency}

// Watch makes it show the sanctions of a guard that are in force. It must be
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

func (s *Sanctions) count(w *sheet) {
	n := map[string]int{}
	if s.guard != nil {
		for _, kind := range sanctions {
			n[string(kind)] = 0
		}
		for _, sanction := range s.guard.List() {
			n[string(sanction.Kind)]++
		}
	}
	by(w, "sluice_sanctions", "Sanctions in force, by kind.", "kind", n)
}
