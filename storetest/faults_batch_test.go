package storetest

import (
	"context"
	"runtime"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// The faults of stores that decide takes which come at once in one call.

// combines is the model behind such a call: the first take to come waits a
// moment for others, and then all are decided.
type combines struct {
	*Model
	decide func(m *Model, batch []*combined)

	deciding sync.Mutex
	waiting  struct {
		sync.Mutex
		takes []*combined
	}
}

type combined struct {
	take     *sluice.Take
	decision *sluice.Decision
	err      error
	done     chan struct{}
}

func (s *combines) Take(_ context.Context, t *sluice.Take, d *sluice.Decision) error {
	c := &combined{take: t, decision: d, done: make(chan struct{})}
	w := &s.waiting
	w.Lock()
	w.takes = append(w.takes, c)
	first := len(w.takes) == 1
	w.Unlock()
	if first {
		for range 200 {
			runtime.Gosched() // what a call under way would do
		}
		s.deciding.Lock()
		w.Lock()
		batch := w.takes
		w.takes = nil
		w.Unlock()
		s.decide(s.Model, batch)
		s.deciding.Unlock()
		for _, c := range batch {
			close(c.done)
		}
	}
	<-c.done
	return c.err
}

func (c *combined) decide(m *Model) { c.err = m.Take(context.Background(), c.take, c.decision) }

// batchForgetsHolds looks holds up once for a batch.
func batchForgetsHolds(m *Model) sluice.Store {
	return &combines{Model: m, decide: func(m *Model, batch []*combined) {
		batch[0].decide(m)
		for _, c := range batch[1:] {
			hidden := map[sluice.Key][]bucket.Hold{}
			for i := range c.take.Demands {
				k := c.take.Demands[i].Key
				if e := m.buckets[k]; e != nil && e.state.Ext != nil {
					hidden[k], e.state.Ext.Holds = e.state.Ext.Holds, nil
				}
			}
			c.decide(m)
			for k, holds := range hidden {
				e := m.buckets[k]
				if e.state.Ext == nil {
					e.state.Ext = new(bucket.Ext)
				}
				e.state.Ext.Holds = holds
			}
		}
	}}
}

// batchMixesUp answers one take with what another of as many demands got.
func batchMixesUp(m *Model) sluice.Store {
	return &combines{Model: m, decide: func(m *Model, batch []*combined) {
		for _, c := range batch {
			c.decide(m)
		}
		for i := 1; i < len(batch); i++ {
			a, b := batch[i-1].decision, batch[i].decision
			if len(a.Results) == len(b.Results) {
				*a, *b = *b, *a
				a.Demands, b.Demands = b.Demands, a.Demands
			}
		}
	}}
}

// batchIsStale reads the buckets once for a batch, so that of those who take
// from one only the last counts.
func batchIsStale(m *Model) sluice.Store {
	return &combines{Model: m, decide: func(m *Model, batch []*combined) {
		found := map[sluice.Key]entry{}
		for _, c := range batch {
			for i := range c.take.Demands {
				k := c.take.Demands[i].Key
				if e := m.buckets[k]; e == nil {
					continue
				} else if was, ok := found[k]; ok {
					*e = was
				} else {
					found[k] = *e
				}
			}
			c.decide(m)
		}
	}}
}
