package memory

import (
	"container/heap"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const (
	receiptShards = 64
	maxReceipts   = 4_000_000
)

// receipt is what is kept of a take that had an effect and has an id: what
// to answer to a repetition and, for a lease, what was charged.
type receipt struct {
	take     sluice.Take // with its own copy of the demands
	decision sluice.Decision
	taken    int64
	expires  int64
	lease    bool          // it can be settled
	closed   sluice.Action // Commit or Release, once one came; else Adjust
	charges  []int64       // what it costs now
}

// record keeps the outcome of a take, unless it had no effect.
func (r *receipt) record(t *sluice.Take, d *sluice.Decision, at, expires int64) {
	effect := d.Allowed
	for i := range d.Results {
		effect = effect || d.Results[i].Consumed.Thousandths() != 0
	}
	if !effect {
		return
	}
	r.take = *t
	r.take.Demands, r.take.Resolve = slices.Clone(t.Demands), nil
	r.decision = *d
	r.decision.Demands = nil
	r.decision.Results = slices.Clone(d.Results)
	r.taken, r.expires = at, expires
	r.lease = t.Lease && d.Allowed
	for i := range d.Results {
		r.charges = append(r.charges, d.Results[i].Consumed.Thousandths())
	}
}

// replay answers a repetition. What nodes hold is not remembered.
func (r *receipt) replay(t *sluice.Take, d *sluice.Decision, now int64) {
	results := append(d.Results[:0], r.decision.Results...)
	*d = r.decision
	d.Demands, d.Results = bucket.Then(r.take.Demands, t.Demands), results
	d.Repeated = true
	d.Time = time.UnixMicro(now)
	for i := range results {
		results[i].Free = results[i].Remaining
	}
}

// printOfDemands is the print of a take as if its caller had not said what it
// asked for, as in snapshots of earlier versions.
func printOfDemands(t *sluice.Take) []byte {
	silent := *t
	silent.Asked = ""
	return bucket.Print(&silent)
}

func (r *receipt) size() int64 {
	return 300 + int64(len(r.decision.ID)) + 250*int64(len(r.charges))
}

// receipts is one part of them, behind its own mutex, which is locked before
// any shard's.
type receipts struct {
	mu     sync.Mutex
	byID   map[string]*receipt
	expiry expiries
}

type expiry struct {
	at int64
	id string
}

// expiries is a heap by time. A renewed receipt is in it more than once.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at < e[j].at }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }
func (e *expiries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *Store) receiptsOf(id string) *receipts {
	return &s.receipts[maphash.String(s.seed, id)%receiptShards]
}

// expire forgets up to n receipts that are over. The caller holds rs.mu.
func (s *Store) expire(rs *receipts, now int64, n int) {
	for ; n > 0 && len(rs.expiry) > 0 && rs.expiry[0].at <= now; n-- {
		e := heap.Pop(&rs.expiry).(expiry)
		if r := rs.byID[e.id]; r != nil && r.expires <= now {
			s.drop(rs, e.id, r)
		}
	}
}

func (rs *receipts) keepUntil(id string, at int64) {
	heap.Push(&rs.expiry, expiry{at: at, id: id})
}

// takeOnce takes, or peeks, unless a take with this id has been and still stands. One
// that was released is as if it had never been.
func (s *Store) takeOnce(t *sluice.Take, d *sluice.Decision) error {
	rs := s.receiptsOf(t.ID)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := s.clock.now()
	s.expire(rs, now, 4)
	if r := rs.byID[t.ID]; r != nil && r.expires > now && r.closed != sluice.Release {
		if !bucket.Repeats(bucket.Print(&r.take), t, printOfDemands) {
			return fmt.Errorf("take %q: %w", t.ID, sluice.ErrRequestMismatch)
		}
		r.replay(t, d, now)
		return nil
	}
	if t.Peek {
		return s.take(t, d, nil)
	}
	if s.kept.Load() >= maxReceipts || s.bytes.Load() >= 2*s.config.MaxBytes {
		return fmt.Errorf("memory store: too many leases and request ids are kept: %w", sluice.ErrUnavailable)
	}
	r := &receipt{}
	if err := s.take(t, d, r); err != nil || r.expires == 0 {
		return err
	}
	s.keep(rs, t.ID, r)
	return nil
}

// keep adds a receipt, in the place of one of the same id that is over.
func (s *Store) keep(rs *receipts, id string, r *receipt) {
	if old := rs.byID[id]; old != nil {
		s.drop(rs, id, old)
	}
	rs.byID[id] = r
	rs.keepUntil(id, r.expires)
	s.kept.Add(1)
	s.bytes.Add(r.size())
}

// Forget removes leases and request ids. Buckets that are full go by themselves
// within seconds, and are in no snapshot.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	for i := range s.receipts {
		if err := s.ready(ctx); err != nil {
			return "", err
		}
		rs := &s.receipts[i]
		rs.mu.Lock()
		for id, r := range rs.byID {
			if slices.ContainsFunc(r.take.Demands, func(d sluice.Demand) bool { return f.Names(&d.Key) }) {
				s.drop(rs, id, r)
			}
		}
		rs.mu.Unlock()
	}
	return "", nil
}

// drop removes a receipt. The caller holds rs.mu.
func (s *Store) drop(rs *receipts, id string, r *receipt) {
	delete(rs.byID, id)
	s.kept.Add(-1)
	s.bytes.Add(-r.size())
}
