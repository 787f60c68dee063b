package storetest

import (
	"context"
	"math"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// The faults with request ids and leases.

func forgetsIDs(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) {
		if !t.Lease {
			t.ID = ""
		}
	}, after: func(_ *faulty, t *sluice.Take, d *sluice.Decision) { d.ID = t.ID }}
}

func repeatsBlindly(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(f *faulty, t *sluice.Take) {
		if r := f.receipts[t.ID]; r != nil && !t.Peek && len(r.take.Demands) == len(t.Demands) {
			r.take.Demands, r.take.UpTo, r.take.Lease = slices.Clone(t.Demands), t.UpTo, t.Lease
		}
	}}
}

func remembersRefusals(m *Model) sluice.Store {
	return &faulty{Model: m, after: func(f *faulty, t *sluice.Take, d *sluice.Decision) {
		if t.ID != "" && !t.Peek && !d.Allowed && !d.Repeated {
			now := f.now().UnixMicro()
			f.receipts[t.ID] = &receipt{
				take:   sluice.Take{ID: t.ID, Demands: slices.Clone(t.Demands), UpTo: t.UpTo, Lease: t.Lease},
				answer: sluice.Decision{ID: t.ID, Results: slices.Clone(d.Results)},
				at:     now, expires: now + t.Keep.Microseconds(), costs: make([]int64, len(t.Demands)),
			}
		}
	}}
}

func releasesTwice(m *Model) sluice.Store {
	return &faulty{Model: m, settling: func(_ *faulty, st *sluice.Settlement, r *receipt) {
		if r.ended && r.end == sluice.Release && st.Action == sluice.Release {
			r.ended = false
			for i := range r.costs {
				r.costs[i] = r.answer.Results[i].Consumed.Thousandths()
			}
		}
	}}
}

func settlesExpired(m *Model) sluice.Store {
	return &faulty{Model: m, settling: func(_ *faulty, _ *sluice.Settlement, r *receipt) { r.expires = math.MaxInt64 }}
}

func refundsOldWindow(m *Model) sluice.Store {
	return &faulty{Model: m, settling: func(f *faulty, _ *sluice.Settlement, r *receipt) { r.at = f.now().UnixMicro() }}
}

func settlesOldLimit(m *Model) sluice.Store {
	return &faulty{Model: m, settling: func(f *faulty, _ *sluice.Settlement, r *receipt) {
		for i := range r.take.Demands {
			d := &r.take.Demands[i]
			spec, err := bucket.Compile(d.Limit)
			if e := f.buckets[d.Key]; err == nil && e != nil && e.spec.Limit != d.Limit {
				spec.Adopt(&e.state, e.spec, f.now().UnixMicro())
				e.spec = spec
			}
		}
	}}
}

func keepsDemands(m *Model) sluice.Store {
	return &faulty{Model: m, after: func(f *faulty, t *sluice.Take, d *sluice.Decision) {
		if r := f.receipts[t.ID]; r != nil && !t.Peek && !d.Repeated {
			r.take.Demands = t.Demands
		}
	}}
}

// obstinate keeps what it should forget.
type obstinate struct{ *Model }

func (obstinate) Forget(context.Context, sluice.Forgetting) (string, error) { return "", nil }

func forgetsNobody(m *Model) sluice.Store { return obstinate{m} }
