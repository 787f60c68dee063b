package world

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// repeats checks that one id is charged once, however often and on however
// many nodes it is asked for, and whatever came of the answers: two takes of
// one id are charged only if the first was released or its time was over by
// the store's clock, or if the store has forgotten it.
func (w *World) repeats() (failures []Failure) {
	type charge struct {
		until time.Time
		life  int
	}
	charges := map[string]charge{}
	for _, e := range w.store.effects {
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
