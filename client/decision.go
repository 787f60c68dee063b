package client

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
)

// decisionJSON is a decision as the server writes it.
type decisionJSON struct {
	Allowed    bool          `json:"allowed"`
	RetryAfter *seconds      `json:"retryAfter"` // null for never
	Limit      string        `json:"limit"`
	Entity     string        `json:"entity"`
	Granted    sluice.Amount `json:"granted"`
	Source     string        `json:"source"`
	Reason     string        `json:"reason"`
	Repeated   bool          `json:"repeated"`
	Lease      string        `json:"lease"`
	Results    []resultJSON  `json:"results"`
}

type resultJSON struct {
	Limit       string         `json:"limit"`
	Entity      string         `json:"entity"`
	Resource    string         `json:"resource"`
	Rule        sluice.Limit   `json:"rule"`
	Level       string         `json:"level"`
	Fits        bool           `json:"fits"`
	RetryAfter  *seconds       `json:"retryAfter"`
	LatestAfter *seconds       `json:"latestAfter"` // absent if it is no later
	Cost        sluice.Amount  `json:"cost"`
	Consumed    sluice.Amount  `json:"consumed"`
	Returned    sluice.Amount  `json:"returned"`
	Remaining   *sluice.Amount `json:"remaining"` // absent if it is not known
	Held        sluice.Amount  `json:"held"`
	ResetAfter  seconds        `json:"resetAfter"`
	Shadow      bool           `json:"shadow"`
	Announce    *bool          `json:"announce"` // absent is true
}

// decision is the same as the library has it.
func (j *decisionJSON) decision(namespace string, t *Take) (sluice.Decision, error) {
	d := sluice.Decision{
		Allowed: j.Allowed, Granted: j.Granted, RetryAfter: retry(j.RetryAfter),
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
		demand.Key = sluice.Key{Namespace: namespace, Entity: r.Entity, Resource: r.Resource, Limit: r.Limit}
		demand.Limit, demand.Shadow, demand.Cost = r.Rule, r.Shadow, r.Cost
		demand.Unannounced = r.Announce != nil && !*r.Announce
		if demand.Level, ok = named(r.Level, sluice.LevelCall); !ok {
			return d, fmt.Errorf("level %q: this client is older than the server", r.Level)
		}
		result := sluice.Result{
			Fits: r.Fits, Consumed: r.Consumed, Returned: r.Returned, Unknown: r.Remaining == nil,
			RetryAfter: retry(r.RetryAfter), ResetAfter: time.Duration(r.ResetAfter),
		}
		if result.LatestAfter = result.RetryAfter; r.LatestAfter != nil {
			result.LatestAfter = time.Duration(*r.LatestAfter)
		}
		if r.Remaining != nil {
			result.Remaining, result.Free = *r.Remaining, r.Remaining.Sub(r.Held)
		}
		d.Results[i] = result
		if r.Limit == j.Limit && r.Entity == j.Entity {
			d.Decider = i
		}
	}
	if j.Reason != "" && len(d.Demands) > 0 && d.Reason() != j.Reason { // not a local quota
		d.Demands[d.Decider].OnUnavailable = sluice.Deny
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

// seconds is a duration as JSON has it: a number of seconds, rounded up to
// milliseconds so that nobody comes back too early.
type seconds time.Duration

// MarshalJSON writes the number.
func (s seconds) MarshalJSON() ([]byte, error) {
	ms := (time.Duration(s) + time.Millisecond - 1) / time.Millisecond
	return strconv.AppendFloat(nil, float64(ms)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *seconds) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(string(b), 64)
	*s = seconds(time.Duration(math.Round(n*1000)) * time.Millisecond)
	return err
}

func retry(after *seconds) time.Duration {
	if after == nil {
		return sluice.Never
	}
	return time.Duration(*after)
}
