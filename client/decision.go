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
	Source       string        `json:"source"`
	Repeated     bool          `json:"repeated"`
	Lease        string        `json:"lease"`
	Results      []resultJSON  `json:"results"`
}

type resultJSON struct {
	Name          string         `json:"name"`
	Entity        string         `json:"entity"`
	Resource      string         `json:"resource"`
	Rule          sluice.Limit   `json:"rule"`
	From          string         `json:"from"`
	Fits          bool           `json:"fits"`
	RetryAfterMs  *int64         `json:"retryAfterMs"`
	LatestAfterMs *int64         `json:"latestAfterMs"` // absent if it is no later
	Cost          sluice.Tokens  `json:"cost"`
	Consumed      sluice.Tokens  `json:"consumed"`
	Returned      sluice.Tokens  `json:"returned"`
	Remaining     *sluice.Tokens `json:"remaining"` // absent if it is not known
	Free          *sluice.Tokens `json:"free"`      // absent if it is Remaining
	ResetAfterMs  int64          `json:"resetAfterMs"`
	Shadow        bool           `json:"shadow"`
}

// decision is the same as the library has it. Times are rounded up to whole
// milliseconds.
func (j *decisionJSON) decision(namespace string, t *Take) (sluice.Decision, error) {
	d := sluice.Decision{
		Allowed: j.Allowed, Granted: j.Granted, RetryAfter: retry(j.RetryAfterMs),
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
		result := sluice.Result{
			Fits: r.Fits, Consumed: r.Consumed, Returned: r.Returned, Unknown: r.Remaining == nil,
			RetryAfter: retry(r.RetryAfterMs), ResetAfter: milliseconds(r.ResetAfterMs),
		}
		if result.LatestAfter = result.RetryAfter; r.LatestAfterMs != nil {
			result.LatestAfter = milliseconds(*r.LatestAfterMs)
		}
		if r.Remaining != nil {
			result.Remaining, result.Free = *r.Remaining, *r.Remaining
		}
		if r.Free != nil {
			result.Free = *r.Free
		}
		d.Results[i] = result
		if r.Name == j.Limit && r.Entity == j.Entity {
			d.Decider = i
		}
	}
	return d, nil
}

func (j *decisionJSON) pointer(namespace string, t *Take) (*sluice.Decision, error) {
	d, err := j.decision(namespace, t)
	return &d, err
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

// wholeMilliseconds rounds up, so that nobody comes back too early.
func wholeMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func retry(ms *int64) time.Duration {
	if ms == nil {
		return sluice.Never
	}
	return milliseconds(*ms)
}
