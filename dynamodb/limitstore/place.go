package limitstore

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// place is one bucket that a call is about, brought to the present. Nothing of it is
// written until it is kept.
type place struct {
	item    *item
	key     *sluice.Key
	now     int64 // the clock's time, which may be before the bucket's
	spec    *bucket.Spec
	state   bucket.State
	view    bucket.View
	before  int64 // what was consumed
	ask     int64
	ticket  bucket.Ticket
	adopted bool
	repaced bool // it adopted a limit with another rate
	changed bool
	left    bool // its ticket was taken out
}

// open finds the bucket of a key and makes it adopt spec.
func (it *item) open(k *sluice.Key, spec *bucket.Spec, now int64) (place, error) {
	p, err := it.openAsIs(k, spec, now)
	if err == nil && p.spec.Limit != spec.Limit {
		p.state.Ext = p.state.Ext.Clone() // it is the record's, which stays as it is unless this is kept
		spec.Adopt(&p.state, p.spec, now)
		p.repaced, p.adopted = spec.Repaces(p.spec), true
		p.spec = spec
		p.look()
	}
	return p, err
}

// openAsIs finds a bucket under the limit that it has, or a new one under spec.
func (it *item) openAsIs(k *sluice.Key, spec *bucket.Spec, now int64) (place, error) {
	p := place{item: it, key: k, now: now, spec: spec}
	if r := it.records[k.Limit]; r != nil {
		if r.damaged != nil {
			return p, fmt.Errorf("dynamodb: %w: bucket %s: %w; a reset mends it", sluice.ErrRecord, k, r.damaged)
		}
		if !r.absent(now) {
			p.spec, p.state = r.spec, r.state
		}
	}
	p.before = p.state.Consumed
	p.look()
	return p, nil
}

// has reports whether there is a record of the bucket, full or not.
func (it *item) has(limit string) bool {
	r := it.records[limit]
	return r != nil && r.spec != nil
}

func (p *place) look() { p.view = p.spec.View(&p.state, p.now) }

// keep has the bucket written, if it was changed.
func (p *place) keep() {
	if !p.changed {
		return
	}
	r := p.item.records[p.key.Limit]
	if r == nil {
		r = &record{}
		p.item.records[p.key.Limit] = r
	}
	r.spec, r.state, r.changed, r.damaged = p.spec, p.state, true, nil
	r.total = bucket.Saturate(r.total + p.state.Consumed - p.before)
	p.item.changed = true
}

// adjust consumes n, or refunds it if negative, of what was taken at since. It
// returns by how much consumption changed, and what came back.
func (p *place) adjust(n, since int64) (consumed, returned int64) {
	switch {
	case n > 0:
		n = p.spec.Take(&p.state, p.view, n)
		p.changed = true
		p.look()
	case n < 0:
		before := p.state.Consumed
		returned = p.spec.Refund(&p.state, p.view, -n, since)
		p.changed = p.changed || p.adopted || returned != 0 || p.state.Consumed != before
		p.look()
	}
	return n, returned
}

// report fills in a result that is no refusal.
func (p *place) report(res *sluice.Result, consumed, returned int64) {
	*res = sluice.Result{
		Fits:       true,
		Consumed:   sluice.Thousandths(consumed),
		Returned:   sluice.Thousandths(returned),
		Remaining:  sluice.Thousandths(p.view.Remaining()),
		Free:       sluice.Thousandths(p.view.Free()),
		ResetAfter: duration(p.spec.ResetIn(&p.state, p.view)),
	}
}

func duration(us int64) time.Duration {
	if us == bucket.Never {
		return sluice.Never
	}
	return time.Duration(us) * time.Microsecond
}
