package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
)

// Take is what to ask for: who uses what, at what cost. Only Entity must be
// given. Which limits apply is stored with the server, unless the take brings
// its own.
type Take struct {
	Entity   string
	Resource string

	// Tier is the entity's plan if the server has none stored for it.
	Tier string

	// Cost is what is wanted of every limit; 0 means one token. Costs names
	// those of single limits, by their names.
	Cost  sluice.Amount
	Costs map[string]sluice.Amount

	// Limits apply in place of those stored, by name.
	Limits map[string]sluice.Limit

	// ID makes the take safe to repeat for a minute, or for as long as a
	// lease lives: with the same ID the answer is the same. It goes as the
	// header Idempotency-Key and is printable ASCII.
	ID string

	// Keep is how long a lease lives; 0 means a minute.
	Keep time.Duration

	// Priority orders takes that wait.
	Priority sluice.Priority

	// Wait is how long a take may wait in line. 0 means until shortly before
	// the context's deadline, so that the answer can still come back.
	Wait time.Duration
}

// takeJSON is a take as the server reads it.
type takeJSON struct {
	Entity   string                  `json:"entity"`
	Resource string                  `json:"resource,omitempty"`
	Tier     string                  `json:"tier,omitempty"`
	Cost     any                     `json:"cost,omitempty"`
	Limits   map[string]sluice.Limit `json:"limits,omitempty"`
	Peek     bool                    `json:"peek,omitempty"`
	UpTo     bool                    `json:"upTo,omitempty"`
	Wait     string                  `json:"wait,omitempty"`
	Priority string                  `json:"priority,omitempty"`
	Keep     string                  `json:"keep,omitempty"`
}

var errTwoCosts = &sluice.FieldError{Field: "take.costs", Value: "beside a cost", Reason: "give one cost for all limits, or one for each by name"}

var errTwoIDs = &sluice.FieldError{Field: "take.id", Value: "another one", Reason: "takes that go together have one ID, which is for the whole request"}

func (t *Take) body() (*takeJSON, error) {
	b := &takeJSON{
		Entity: t.Entity, Resource: t.Resource, Tier: t.Tier, Limits: t.Limits, Keep: span(t.Keep),
	}
	switch {
	case t.Cost.Thousandths() != 0 && len(t.Costs) > 0:
		return nil, errTwoCosts
	case t.Cost.Thousandths() != 0:
		b.Cost = t.Cost
	case len(t.Costs) > 0:
		b.Cost = t.Costs
	}
	switch {
	case t.Priority > sluice.Normal:
		b.Priority = "interactive"
	case t.Priority < sluice.Normal:
		b.Priority = "batch"
	}
	return b, nil
}

// decide asks for a decision: an allowed one or a refusal.
func (c *Client) decide(ctx context.Context, t *Take, path string, set func(*takeJSON)) (sluice.Decision, string, error) {
	body, err := t.body()
	if err != nil {
		return sluice.Decision{}, "", err
	}
	if set != nil {
		set(body)
	}
	var answer decisionJSON
	request := post(body, path)
	request.key = t.ID
	if err := c.do(ctx, request, &answer, http.StatusTooManyRequests); err != nil {
		return sluice.Decision{}, "", err
	}
	d, err := answer.decision(c.namespace, t)
	return d, answer.Lease, err
}

// Take consumes at once, from all limits that apply or from none. A refusal
// is no error: the decision says which limit refused, and when to come back.
func (c *Client) Take(ctx context.Context, t Take) (sluice.Decision, error) {
	d, _, err := c.decide(ctx, &t, "take", nil)
	return d, err
}

// TakeUpTo consumes as much of the cost as there is, in whole tokens:
// Decision.Granted. It refuses if that is nothing.
func (c *Client) TakeUpTo(ctx context.Context, t Take) (sluice.Decision, error) {
	d, _, err := c.decide(ctx, &t, "take", func(b *takeJSON) { b.UpTo = true })
	return d, err
}

// Peek returns what Take would, and consumes nothing.
func (c *Client) Peek(ctx context.Context, t Take) (sluice.Decision, error) {
	d, _, err := c.decide(ctx, &t, "take", func(b *takeJSON) { b.Peek = true })
	return d, err
}

const (
	// maxWait is the longest that the server lets anyone wait.
	maxWait = time.Minute
	// onTheWay is left of a deadline for the answer to come back.
	onTheWay = 50 * time.Millisecond
)

// patience is how long a take waits: as long as it says, and until shortly
// before ctx's deadline at most.
func (t *Take) patience(ctx context.Context) time.Duration {
	most := maxWait
	if t.Wait > 0 {
		most = min(most, t.Wait)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		most = min(most, left-min(onTheWay, left/4))
	}
	return max(most, time.Millisecond)
}

// Wait takes, waiting in the server's line for as long as the take says, or
// until ctx's deadline, but no longer than a minute. If its turn does not come
// by then the error is a *sluice.RefusedError and nothing is consumed.
func (c *Client) Wait(ctx context.Context, t Take) (sluice.Decision, error) {
	d, _, err := c.decide(ctx, &t, "take", func(b *takeJSON) { b.Wait = t.patience(ctx).String() })
	if err == nil {
		err = d.Err()
	}
	return d, err
}

// Outcome is what became of one take of several.
type Outcome struct {
	Decision sluice.Decision
	Err      error // if there is no decision
}

// Takes decides several takes in one request, each by itself. There is an
// outcome for each; the error is for what concerns all of them, and then none
// was taken, unless it wraps sluice.ErrUnknown. At most 100 go at once. If they
// have an ID, it is the same one for all of them: that of the request.
func (c *Client) Takes(ctx context.Context, takes ...Take) ([]Outcome, error) {
	bodies := make([]*takeJSON, len(takes))
	request := post(map[string]any{"takes": bodies}, "takes")
	for i := range takes {
		var err error
		if request.key = takes[0].ID; takes[i].ID != request.key {
			return nil, errTwoIDs
		}
		if bodies[i], err = takes[i].body(); err != nil {
			return nil, err
		}
	}
	answer, err := ask[struct {
		Decisions []struct {
			decisionJSON
			Problem *Error
		}
	}](ctx, c, request)
	if err != nil {
		return nil, err
	}
	if len(answer.Decisions) != len(takes) {
		return nil, errors.New("the server did not answer every take")
	}
	all := make([]Outcome, len(takes))
	for i := range answer.Decisions {
		if p := answer.Decisions[i].Problem; p != nil {
			all[i].Err = p
			continue
		}
		if all[i].Decision, err = answer.Decisions[i].decision(c.namespace, &takes[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Adjust consumes t.Costs without asking, or refunds those that are negative.
// It may leave a debt, which refill repays.
func (c *Client) Adjust(ctx context.Context, t Take) (sluice.Decision, error) {
	d, _, err := c.decide(ctx, &t, "adjust", nil)
	return d, err
}

// Reset refills the buckets of an entity on a resource as if they were new.
func (c *Client) Reset(ctx context.Context, s Subject) error {
	return c.do(ctx, post(takeJSON{Entity: s.Entity, Resource: s.Resource, Tier: s.Tier}, "reset"), nil)
}

// UnmarshalJSON reads a problem.
func (e *Error) UnmarshalJSON(b []byte) error {
	var p struct {
		Status              int
		Code, Detail, Field string
	}
	err := json.Unmarshal(b, &p)
	*e = Error{Status: p.Status, Code: p.Code, Detail: p.Detail, Field: p.Field}
	return err
}
