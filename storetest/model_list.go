package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// List finds the buckets that are not full, in order of their keys. The
// counter of net consumption includes holds that have just expired, and starts
// again where a bucket was full. Other stores may know LastTaken less exactly.
func (m *Model) List(_ context.Context, q sluice.Query) (sluice.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return sluice.Page{}, err
	}
	page := sluice.Page{Time: time.UnixMicro(now)}
	for _, k := range m.find(q) {
		w := m.openAsIs(k, m.buckets[k].spec, now)
		if w.view.Idle() {
			continue
		}
		if len(page.Buckets) == q.Max {
			page.Next = cursor(page.Buckets[q.Max-1].Key)
			break
		}
		page.Buckets = append(page.Buckets, sluice.Bucket{
			Key:       k,
			Limit:     w.spec.Limit,
			Remaining: sluice.Thousandths(w.view.Remaining()),
			Held:      sluice.Thousandths(w.view.Held),
			Consumed:  sluice.Thousandths(w.spec.ConsumedBy(&w.state, w.view)),
			Reset:     duration(w.spec.ResetIn(&w.state, w.view)),
			LastTaken: w.spec.LastTaken(&w.state),
			Tickets:   w.view.Tickets,
		})
	}
	return page, nil
}

// find is the keys of the buckets that match, after the cursor.
func (m *Model) find(q sluice.Query) []sluice.Key {
	var keys []sluice.Key
	for k := range m.buckets {
		if k.Namespace == q.Namespace && (q.Entity == "" || k.Entity == q.Entity) &&
			(q.Resource == "" || k.Resource == q.Resource) && (q.Cursor == "" || cursor(k) > q.Cursor) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// cursor is a key as a string that sorts like it. Parts are at most 255 bytes
// long, so that padding keeps them apart.
func cursor(k sluice.Key) string {
	var b []byte
	for _, part := range [...]string{k.Namespace, k.Entity, k.Resource, k.Limit} {
		var padded [sluice.MaxKeyPart + 1]byte
		copy(padded[:], part)
		padded[sluice.MaxKeyPart] = byte(len(part))
		b = append(b, padded[:]...)
	}
	return string(b)
}

func compareKeys(a, b sluice.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Entity, b.Entity),
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit))
}
