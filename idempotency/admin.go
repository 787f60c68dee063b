package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-go/sluice"
)

// Lookup finds the record of a key and, if its run has ended, the response. It
// answers [ErrNotFound] if there is none.
func (k *Keeper) Lookup(ctx context.Context, s Scope) (Record, *Response, error) {
	if err := s.Validate(); err != nil {
		return Record{}, nil, err
	}
	record, err := k.store.Lookup(ctx, s.ID())
	if err != nil || record.State == Running {
		return record, nil, err
	}
	r, err := DecodeResponse(record.Result)
	return record, &r, err
}

// Forget deletes the record of a key, whatever its state, so that the next
// request with it runs. A run that is going on then has nothing to end.
func (k *Keeper) Forget(ctx context.Context, s Scope) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return k.store.Forget(ctx, s.ID())
}

// forgetMost is how many records go in one step: a few milliseconds.
const forgetMost = 500

// ForgetAll deletes every record of a tenant or a namespace, whatever its
// state, and the figures about them, and answers how many records it was. It
// does so step by step: if it is interrupted, call it again. Runs that are
// going on end with nothing stored. What is claimed meanwhile may stay, and
// what other nodes have counted in the last second comes after it.
func (k *Keeper) ForgetAll(ctx context.Context, whose Whose) (int, error) {
	if n := len(whose.Tenant); n > MaxName || whose.Below && (n == 0 || strings.Contains(whose.Tenant, "/")) {
		return 0, &sluice.FieldError{
			Field: "idempotency.tenant", Value: whose.Tenant,
			Reason: fmt.Sprintf("must be at most %d bytes long, and the name of a namespace if all in it are meant", MaxName),
		}
	}
	for total := 0; ; {
		k.seen.forget(whose)
		n, err := k.store.ForgetAll(ctx, whose, forgetMost)
		total += n
		if err != nil || n < forgetMost {
			return total, err
		}
	}
}

// Settle decides what a crashed run counts as: with a response, as done, which
// is then what repeats get; with nil, as never run. It answers [ErrNotCrashed]
// unless the run's claim has lapsed.
func (k *Keeper) Settle(ctx context.Context, s Scope, r *Response) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if r != nil && (r.Status < 200 || r.Status > 599) {
		return &sluice.FieldError{Field: "response.status", Value: r.Status, Reason: "must be 200 to 599"}
	}
	var result []byte
	if r != nil {
		var err error
		if result, err = r.Encode(); err != nil {
			return err
		}
	}
	record, err := k.store.Lookup(ctx, s.ID())
	if err != nil {
		return err
	}
	if !record.Crashed {
		return ErrNotCrashed
	}
	// Taking it over locks out the crashed run, should it wake up, and
	// whoever else settles.
	claim := Claim{
		Scope: s, Token: NewToken(), Fingerprint: record.Fingerprint,
		Life: storePatience, TTL: max(MinTTL, record.Expires.Sub(record.Started)), TakeOver: true,
	}
	a, err := k.store.Claim(ctx, &claim)
	if err != nil {
		return err
	}
	switch {
	case a.Verdict == Claimed: // it has expired in between
		return errors.Join(ErrNotFound, k.store.Release(ctx, s.ID(), claim.Token))
	case a.Verdict != TakenOver:
		return ErrNotCrashed
	case r == nil:
		return k.store.Release(ctx, s.ID(), claim.Token)
	}
	return k.store.Finish(ctx, &Finish{ID: s.ID(), Token: claim.Token, State: Done, Result: result, TTL: claim.TTL})
}

// Stats are the figures of a tenant or of everyone, from all nodes, a few
// seconds old.
func (k *Keeper) Stats(ctx context.Context, q Query) (Stats, error) {
	return k.store.Stats(ctx, q)
}

// Local are the figures of this keeper alone, up to now.
func (k *Keeper) Local() Stats {
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	return k.seen.local
}

// Recent finds the records replayed last, by any node, a few seconds ago at the
// latest.
func (k *Keeper) Recent(ctx context.Context, q Query) ([]Record, error) {
	if q.Max == 0 {
		q.Max = 100
	}
	if q.Max < 1 || q.Max > 1000 {
		return nil, &sluice.FieldError{Field: "query.max", Value: q.Max, Reason: "must be 1 to 1000, or 0 for 100"}
	}
	return k.store.Recent(ctx, q)
}
