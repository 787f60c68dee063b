package world

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// repeats checks that one id is charged once, however often and on however
// many nodes it is asked for, and whatever came of the answers: two takes of
// one id are charged only if the first was released or its time was over by
// the store's clock, or if the store has forgotten it. Whoever asks for the same
// again is never told that the id is of another take, though limits have changed,
// and is not refused once the id is charged, also after it has waited.
func (w *World) repeats() (failures []Failure) {
	type charge struct {
		until time.Time
		life  int
	}
	charges := map[string]charge{}
	told, last := map[caller]*Told{}, map[caller]*Effect{}
	for _, t := range w.told {
		if t.Take == nil || t.Take.ID == "" {
			continue
		}
		if errors.Is(t.Err, sluice.ErrRequestMismatch) {
			failures = append(failures, Failure{"repeats", t.Return.At, fmt.Sprintf("id %s is taken for that of another take", t.Take.ID)})
		}
		if _, refused := errors.AsType[*sluice.RefusedError](t.Err); !t.Lost && !t.degraded() && !t.Decision.Allowed && (t.Err == nil || refused) {
			told[t.Caller] = t
		}
	}
	for _, e := range w.store.effects {
		if e.Take != nil {
			last[e.Caller] = e
		}
	}
	for _, e := range w.store.effects {
		if t := told[e.Caller]; t != nil && last[e.Caller] == e && e.Err == nil {
			if c, ok := charges[t.Take.ID]; ok && c.life == e.Life && e.Decision.Time.Before(c.until) {
				failures = append(failures, Failure{"repeats", e.At, fmt.Sprintf("id %s is refused, though it is charged", t.Take.ID)})
			}
		}
		switch {
		case e.Err != nil:
		case e.Settled != nil && e.Settled.Action == sluice.Release:
			delete(charges, e.Settled.ID)
		case e.Settled != nil && e.Settled.Action == sluice.Renew:
			c := charges[e.Settled.ID]
			c.until = e.Decision.Time.Add(e.Settled.Keep)
			charges[e.Settled.ID] = c
		case e.Take != nil && e.Take.ID != "" && !e.Take.Peek && e.Decision.Allowed && !e.Decision.Repeated:
			if c, ok := charges[e.Take.ID]; ok && c.life == e.Life && e.Decision.Time.Before(c.until) {
				failures = append(failures, Failure{"repeats", e.At, fmt.Sprintf("id %s is charged again", e.Take.ID)})
			}
			charges[e.Take.ID] = charge{e.Decision.Time.Add(e.Take.Keep), e.Life}
		}
	}
	return failures
}
