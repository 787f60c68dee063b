package storetest

import (
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

func creditsLateReturn(m *Model) sluice.Store {
	return &faulty{Model: m, returned: func(f *faulty, r *sluice.HoldReturn) {
		e := f.buckets[r.Key]
		if e == nil || e.state.Ext == nil {
			return
		}
		now := f.now().UnixMicro()
		x := e.state.Ext
		x.Holds = slices.DeleteFunc(x.Holds, func(h bucket.Hold) bool { return h.ID == r.ID && h.Expires <= now })
	}}
}

func returnsExpired(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(_ *faulty, _ sluice.Key, e *entry, now int64) {
		if x := e.state.Ext; x != nil {
			x.Holds = slices.DeleteFunc(x.Holds, func(h bucket.Hold) bool { return h.Expires <= now })
		}
	}}
}

func neverRecalls(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(_ *faulty, _ sluice.Key, e *entry, _ int64) {
		if x := e.state.Ext; x != nil {
			x.Recalled, x.RecallCost = 0, 0
		}
	}}
}

// heldIsUsed shows what nodes hold as used.
func heldIsUsed(m *Model) sluice.Store {
	return &faulty{Model: m, after: func(_ *faulty, _ *sluice.Take, d *sluice.Decision) {
		for i := range d.Results {
			d.Results[i].Remaining = d.Results[i].Free
		}
	}}
}
