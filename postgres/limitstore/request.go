package limitstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides t.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if t.ID != "" {
		return s.takeOnce(ctx, t, d)
	}
	return s.take(ctx, t, d)
}

func (s *Store) take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	r, err := s.newRequest(t)
	if err != nil {
		return err
	}
	if err := s.takes.do(ctx, r); err != nil {
		return err
	}
	return r.deliver(t, d)
}

// kind is which function of the database a request is for.
type kind uint8

const (
	generalTake kind = iota
	plainTake
	settlement
)

// request is a take or a settlement on its way. It has its own copy of
// everything, because a caller that gives up may reuse what it passed while
// the request is under way.
type request struct {
	kind   kind
	id     string   // of the take or lease, if it has one
	hashes []uint64 // of what only one batch at a time should touch
	tries  int

	take  sluice.Take
	specs []*bucket.Spec
	keys  []rowKey
	hint  int64 // a time whose calendar windows are needed

	settle sluice.Settlement
	bounds []int64 // calendar windows of the lease's limits

	arrived  time.Time
	deadline time.Time     // zero if the caller has none
	answers  int           // of the database to other batches, when it arrived
	answered chan struct{} // holds one when there is an answer

	err      error
	decision sluice.Decision
}

var requests = sync.Pool{New: func() any { return &request{answered: make(chan struct{}, 1)} }}

// newRequest copies t, and fails if a limit is not valid.
func (s *Store) newRequest(t *sluice.Take) (*request, error) {
	r := requests.Get().(*request)
	demands := append(r.take.Demands[:0], t.Demands...)
	results := slices.Grow(r.decision.Results[:0], len(demands))[:len(demands)]
	clear(results)
	*r = request{
		id: t.ID, take: *t, specs: r.specs[:0], keys: r.keys[:0], hashes: r.hashes[:0], answered: r.answered,
		decision: sluice.Decision{ID: t.ID, Source: sluice.FromStore, Results: results},
	}
	r.take.Demands = demands
	plain := t.ID == "" && !t.Peek && !t.UpTo && t.Ticket.ID == (sluice.HoldID{})
	now := time.Now().Unix()
	for i := range demands {
		d := &demands[i]
		spec, err := s.specs.compile(&d.Limit)
		if err != nil {
			requests.Put(r)
			return nil, err
		}
		k := rowKeyOf(&d.Key)
		hash := s.marks.hash(&k)
		r.specs, r.keys, r.hashes = append(r.specs, spec), append(r.keys, k), append(r.hashes, hash)
		plain = plain && !d.Shadow && !d.CountRefused && d.Limit.Calendar == sluice.NoCalendar &&
			(d.Limit.Algorithm == sluice.TokenBucket || d.Limit.Algorithm == sluice.FixedWindow) &&
			!s.marks.isUneven(hash, now)
	}
	if plain {
		r.kind = plainTake
	}
	return r, nil
}

// idle reports whether r will probably write nothing. A ticket is put down if
// it is refused, and taken up if it is not.
func (r *request) idle(m *marks) bool {
	return r.take.Peek || r.take.Ticket.ID == (sluice.HoldID{}) && slices.ContainsFunc(r.hashes, m.isTight)
}

// answer wakes the caller. The request is the caller's from then on.
func (r *request) answer(err error) {
	r.err = err
	r.answered <- struct{}{}
}

// deliver gives the answer to the caller.
func (r *request) deliver(t *sluice.Take, d *sluice.Decision) error {
	defer requests.Put(r)
	if r.err != nil {
		return r.err
	}
	results := append(d.Results[:0], r.decision.Results...)
	*d = r.decision
	d.Demands, d.Results = t.Demands, results
	d.Conclude()
	return nil
}
