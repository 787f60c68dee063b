package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// Status is how somebody stands with the limits that apply to them.
type Status struct {
	Entity   string        `json:"entity"`
	Resource string        `json:"resource"` // "" if it is about all that are in use
	Tier     string        `json:"tier"`
	Alarm    catalog.Alarm `json:"alarm"` // the worst of all limits
	Limits   []LimitStatus `json:"limits"`
}

// LimitStatus is how much of one limit is used.
type LimitStatus struct {
	Entity      string        `json:"entity"` // the one asked about, or a parent
	Resource    string        `json:"resource"`
	Limit       string        `json:"limit"`
	Rule        sluice.Limit  `json:"rule"`
	From        string        `json:"from"` // the level, as sluice.Level writes it
	Capacity    sluice.Tokens `json:"capacity"`
	Remaining   sluice.Tokens `json:"remaining"`
	Utilization float64       `json:"utilization"` // percent; above 100 is a debt
	ResetAfter  time.Duration `json:"-"`
	Alarm       catalog.Alarm `json:"alarm"`
	Upgrade     bool          `json:"upgrade"` // a greater plan might help
	Recent      *Recent       `json:"recent"`  // nil if the node does not count
}

// Recent is what the node that answered was asked of a bucket.
type Recent struct {
	Allowed int64     `json:"allowed"` // in the last minute
	Limited int64     `json:"limited"` // in the last minute
	Failed  int64     `json:"failed"`  // in the last minute
	Total   int64     `json:"total"`
	Last    time.Time `json:"last,omitzero"`
}

// MarshalJSON writes what the server does.
func (l LimitStatus) MarshalJSON() ([]byte, error) {
	type plain LimitStatus
	return json.Marshal(struct {
		plain
		Ms int64 `json:"resetAfterMs"`
	}{plain(l), l.ResetAfter.Milliseconds()})
}

// UnmarshalJSON reads what the server writes.
func (l *LimitStatus) UnmarshalJSON(b []byte) error {
	type plain LimitStatus
	j := struct {
		*plain
		Ms int64 `json:"resetAfterMs"`
	}{plain: (*plain)(l)}
	err := json.Unmarshal(b, &j)
	l.ResetAfter = milliseconds(j.Ms)
	return err
}

// Status is how an entity stands on a resource, or on all that it uses if
// resource is "".
func (c *Client) Status(ctx context.Context, entity, resource string) (Status, error) {
	path := []string{"status", entity}
	if resource != "" {
		path = append(path, resource)
	}
	return ask[Status](ctx, c, get(nil, path...))
}

// Me is how the holder of the client's API key stands, on a resource or on
// all that they use if it is "".
func (c *Client) Me(ctx context.Context, resource string) (Status, error) {
	return ask[Status](ctx, c, get(values("resource", resource), "me"))
}

// Bucket is a bucket in use.
type Bucket struct {
	Entity      string        `json:"entity"`
	Resource    string        `json:"resource"`
	Limit       string        `json:"limit"`
	Rule        sluice.Limit  `json:"rule"`
	Remaining   sluice.Tokens `json:"remaining"`
	Held        sluice.Tokens `json:"held"` // leased in advance by nodes
	Consumed    sluice.Tokens `json:"consumed"`
	Utilization float64       `json:"utilization"` // percent
	Alarm       catalog.Alarm `json:"alarm"`
	ResetAfter  time.Duration `json:"-"`
	LastTaken   time.Time     `json:"lastTaken,omitzero"`
	Recent      *Recent       `json:"recent,omitempty"`
}

// MarshalJSON writes what the server does.
func (k Bucket) MarshalJSON() ([]byte, error) {
	type plain Bucket
	return json.Marshal(struct {
		plain
		Ms int64 `json:"resetAfterMs"`
	}{plain(k), k.ResetAfter.Milliseconds()})
}

// UnmarshalJSON reads what the server writes.
func (k *Bucket) UnmarshalJSON(b []byte) error {
	type plain Bucket
	j := struct {
		*plain
		Ms int64 `json:"resetAfterMs"`
	}{plain: (*plain)(k)}
	err := json.Unmarshal(b, &j)
	k.ResetAfter = milliseconds(j.Ms)
	return err
}

// BucketPage is one page of buckets.
type BucketPage struct {
	Buckets []Bucket `json:"buckets"`
	Next    string   `json:"next"`
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

// Explanation is which limits apply to a take, from where, and what it would
// be answered.
type Explanation struct {
	Text     string           // for people
	Tier     string           // of the entity, as it counts
	Known    bool             // the entity is stored
	Applied  []AppliedLimit   // the limits that apply
	Warnings []string         // limits that are hidden by others
	Decision *sluice.Decision // nil if no limit applies
}

// AppliedLimit is a limit that applies, and why.
type AppliedLimit struct {
	Entity string       `json:"entity"` // the one asked about, or a parent
	Limit  string       `json:"limit"`
	Rule   sluice.Limit `json:"rule"`
	From   string       `json:"from"` // the level
	Kept   catalog.From `json:"kept"` // where: stored, file, default or override
	Until  time.Time    `json:"until,omitzero"`
	Reason string       `json:"reason,omitempty"` // of an override
}

// Explain tells which limits apply to a take, and what it would be answered.
// It consumes nothing.
func (c *Client) Explain(ctx context.Context, t Take) (Explanation, error) {
	body, err := t.body()
	if err != nil {
		return Explanation{}, err
	}
	answer, err := ask[struct {
		Text     string
		Tier     string
		Known    bool
		Applied  []AppliedLimit
		Warnings []string
		Decision *decisionJSON
	}](ctx, c, post(body, "explain"))
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Text: answer.Text, Tier: answer.Tier, Known: answer.Known, Applied: answer.Applied, Warnings: answer.Warnings}
	if answer.Decision != nil {
		d, err := answer.Decision.decision(c.namespace, &t)
		if err != nil {
			return e, err
		}
		e.Decision = &d
	}
	return e, nil
}
