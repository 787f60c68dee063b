package client

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// decisionJSON is a decision as the server writes it.
type decisionJSON struct {
	Allowed      bool          `json:"allowed"`
	RetryAfterMs *int64        `json:"retryAfterMs"` // null for never
	Limit        string        `json:"limit"`
	Entity       string        `json:"entity"`
	Granted      sluice.Tokens `json:"granted"`
	DelayMs      int64         `json:"delayMs"`
	Source       string        `json:"source"`
	Repeated     bool          `json:"repeated"`
	Lease        string        `json:"lease"`
	Results      []resultJSON  `json:"results"`
}

type resultJSON struct {
	Name         string        `json:"name"`
	Entity       string        `json:"entity"`
	Resource     string        `json:"resource"`
	Rule         sluice.Limit  `json:"rule"`
	From         string        `json:"from"`
	Fits         bool          `json:"fits"`
	RetryAfterMs *int64        `json:"retryAfterMs"`
	Cost         sluice.Tokens `json:"cost"`
	Consumed     sluice.Tokens `json:"consumed"`
	Remaining    sluice.Tokens `json:"remaining"`
	ResetAfterMs int64         `json:"resetAfterMs"`
	Shadow       bool          `json:"shadow"`
}

// decision is the same as the library has it. Times are rounded up to whole
// milliseconds.
func (j *decisionJSON) decision(namespace string, t *Take) (sluice.Decision, error) {
	d := sluice.Decision{
		Allowed: j.Allowed, Granted: j.Granted, Delay: milliseconds(j.DelayMs), RetryAfter: retry(j.RetryAfterMs),
		Repeated: j.Repeated, ID: j.Lease, Time: time.Now(),
		Demands: make([]sluice.Demand, len(j.Results)), Results: make([]sluice.Result, len(j.Results)),
	}
	if d.ID == "" && t != nil {
		d.ID = t.ID
	}
	var ok bool
	if d.Source, ok = named(j.Source, sluice.Unknown); !ok {
		return d, fmt.Errorf("source %q: this client is older than the server", j.Source)
	}
	for i := range j.Results {
		r := &j.Results[i]
		demand := &d.Demands[i]
		demand.Key = sluice.Key{Namespace: namespace, Entity: r.Entity, Resource: r.Resource, Limit: r.Name}
		demand.Limit, demand.Shadow, demand.Cost = r.Rule, r.Shadow, r.Cost
		if demand.Level, ok = named(r.From, sluice.LevelCall); !ok {
			return d, fmt.Errorf("from %q: this client is older than the server", r.From)
		}
		d.Results[i] = sluice.Result{
			Fits: r.Fits, Consumed: r.Consumed, Remaining: r.Remaining,
			RetryAfter: retry(r.RetryAfterMs), ResetAfter: milliseconds(r.ResetAfterMs),
		}
		if r.Name == j.Limit && r.Entity == j.Entity {
			d.Decider = i
		}
	}
	return d, nil
}

// named is the value, up to the last, that is written so.
func named[T interface {
	~uint8
	fmt.Stringer
}](text string, last T) (T, bool) {
	for v := T(0); v <= last; v++ {
		if v.String() == text {
			return v, true
		}
	}
	return 0, false
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func retry(ms *int64) time.Duration {
	if ms == nil {
		return sluice.Never
	}
	return milliseconds(*ms)
}
