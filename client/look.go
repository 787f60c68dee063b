package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// Status is how much an entity has used of the limits that apply to it.
type Status struct {
	Entity   string        `json:"entity"`
	Resource string        `json:"resource"` // "" if it is about all that are in use
	Tier     string        `json:"tier,omitempty"`
	Alarm    catalog.Alarm `json:"alarm,omitempty"` // the worst of all limits; absent if none is known
	Store    string        `json:"store,omitempty"` // the state of a shared store: normal, open, half-open or a phase of recovery
	Limits   []LimitStatus `json:"limits"`
}

// LimitStatus is how much of one limit is used.
type LimitStatus struct {
	Entity      string        `json:"entity"` // the one asked about, or a parent
	Resource    string        `json:"resource"`
	Limit       string        `json:"limit"`
	Rule        sluice.Limit  `json:"rule"`
	LastRule    *sluice.Limit `json:"lastRule,omitempty"` // that the bucket was last taken by, if it is another
	Level       string        `json:"level"`              // as sluice.Level writes it; none if no level has it now
	Capacity    sluice.Amount `json:"capacity"`
	Remaining   sluice.Amount `json:"-"`
	Utilization float64       `json:"-"` // percent; above 100 is a debt
	ResetAfter  time.Duration `json:"-"`
	Alarm       catalog.Alarm `json:"alarm,omitempty"`
	Upgrade     bool          `json:"upgrade"` // a larger plan might help
	Source      string        `json:"source"`  // who was asked, as sluice.Source writes it

	// Unknown says that Remaining, Utilization, ResetAfter and Alarm are not
	// known, because the store could not be asked.
	Unknown bool `json:"-"`

	Activity
}

// Activity is what is asked of a bucket.
type Activity struct {
	// WaitingNodes is how many nodes have callers that wait in line for it;
	// nil if that is not known.
	WaitingNodes *int `json:"waitingNodes,omitempty"`

	// Total is what all nodes have taken since it was first used, up to a
	// second ago; nil if that is nothing, or not known.
	Total *Total `json:"total,omitempty"`

	// Node is what the node that answered was asked; nil if it does not count.
	Node *Node `json:"node,omitempty"`
}

// Total is what was ever taken from a bucket.
type Total struct {
	Consumed  sluice.Amount `json:"consumed"` // less what was given back
	Takes     int64         `json:"takes"`
	LastTaken time.Time     `json:"lastTaken,omitzero"` // zero if that is not known
}

// Node is what one node was asked of a bucket in the last minute, and who waits
// there now.
type Node struct {
	Allowed     int64   `json:"allowed"`
	Refused     int64   `json:"refused"` // by this bucket
	Failed      int64   `json:"failed"`
	Waiting     int     `json:"waiting"`               // callers in line
	LongestWait float64 `json:"longestWait,omitempty"` // seconds
}

// RuleText returns the limit's rule, and the one that its bucket was last taken
// by if that is another.
func (l *LimitStatus) RuleText() string {
	if l.LastRule == nil {
		return l.Rule.String()
	}
	return l.Rule.String() + " (last " + l.LastRule.String() + ")"
}

// limitStatusJSON is what may not be known, as the server writes it.
type limitStatusJSON struct {
	Remaining   *sluice.Amount `json:"remaining,omitempty"`
	Utilization *float64       `json:"utilization,omitempty"`
	ResetAfter  *seconds       `json:"resetAfter,omitempty"`
}

// MarshalJSON writes what the server does.
func (l LimitStatus) MarshalJSON() ([]byte, error) {
	type plain LimitStatus
	var known limitStatusJSON
	if !l.Unknown {
		known = limitStatusJSON{&l.Remaining, &l.Utilization, (*seconds)(&l.ResetAfter)}
	}
	return json.Marshal(struct {
		plain
		limitStatusJSON
	}{plain(l), known})
}

// UnmarshalJSON reads what the server writes.
func (l *LimitStatus) UnmarshalJSON(b []byte) error {
	type plain LimitStatus
	j := struct {
		*plain
		limitStatusJSON
	}{plain: (*plain)(l)}
	err := json.Unmarshal(b, &j)
	known := &j.limitStatusJSON
	if l.Unknown = known.Remaining == nil || known.Utilization == nil || known.ResetAfter == nil; !l.Unknown {
		l.Remaining, l.Utilization, l.ResetAfter = *known.Remaining, *known.Utilization, time.Duration(*known.ResetAfter)
	}
	return err
}

// Subject is who uses what.
type Subject struct {
	Entity   string
	Resource string // "" for none in particular
	Tier     string // the entity's plan if the server has none stored for it
}

// Status returns the status of an entity on a resource, or on all that it uses
// if s names none.
func (c *Client) Status(ctx context.Context, s Subject) (Status, error) {
	path := []string{"status", s.Entity}
	if s.Resource != "" {
		path = append(path, s.Resource)
	}
	return ask[Status](ctx, c, get(values("tier", s.Tier), path...))
}

// Me returns the status of the holder of the client's API key, on a resource or on
// all that they use if it is "".
func (c *Client) Me(ctx context.Context, resource string) (Status, error) {
	return ask[Status](ctx, c, get(values("resource", resource), "me"))
}

// Bucket is a bucket in use.
type Bucket struct {
	Entity      string        `json:"entity"`
	Resource    string        `json:"resource"`
	Limit       string        `json:"limit"`
	Rule        sluice.Limit  `json:"rule"`              // that it was last taken by
	Applies     *sluice.Limit `json:"applies,omitempty"` // the rule of the entity or its tier by now, if it is another
	Remaining   sluice.Amount `json:"remaining"`         // what is not used
	Held        sluice.Amount `json:"held"`              // the part of it that nodes hold ahead of need
	Consumed    sluice.Amount `json:"consumed"`          // since the bucket was last full
	Utilization float64       `json:"utilization"`       // percent
	Alarm       catalog.Alarm `json:"alarm"`
	ResetAfter  time.Duration `json:"-"`
	LastTaken   time.Time     `json:"lastTaken,omitzero"` // zero for windows
	Activity
}

// MarshalJSON writes what the server does.
func (k Bucket) MarshalJSON() ([]byte, error) {
	type plain Bucket
	return json.Marshal(struct {
		plain
		ResetAfter seconds `json:"resetAfter"`
	}{plain(k), seconds(k.ResetAfter)})
}

// UnmarshalJSON reads what the server writes.
func (k *Bucket) UnmarshalJSON(b []byte) error {
	type plain Bucket
	j := struct {
		*plain
		ResetAfter *seconds `json:"resetAfter"`
	}{(*plain)(k), (*seconds)(&k.ResetAfter)}
	return json.Unmarshal(b, &j)
}

// RuleText returns the bucket's rule, and the one that has replaced it if the
// bucket was not taken from since.
func (k *Bucket) RuleText() string {
	if k.Applies == nil {
		return k.Rule.String()
	}
	return k.Applies.String() + " (was " + k.Rule.String() + ")"
}

// BucketPage is one page of buckets.
type BucketPage struct {
	Buckets []Bucket `json:"buckets"`
	Next    string   `json:"next"`
	Store   string   `json:"store,omitempty"` // the state of a shared store, as in [Status]
}

// BucketQuery selects buckets: of an entity, of a resource, of both or all.
type BucketQuery struct {
	Entity   string
	Resource string
	Page
}

// Buckets lists the buckets in use, in no particular order.
func (c *Client) Buckets(ctx context.Context, q BucketQuery) (BucketPage, error) {
	return ask[BucketPage](ctx, c, get(q.values("entity", q.Entity, "resource", q.Resource), "buckets"))
}
