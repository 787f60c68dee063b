package limitstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// receipt is what is remembered of a take with an id, as receipt.lua writes it.
type receipt struct {
	ended   sluice.Action
	expires int64
	print   []byte
	allowed bool
	demands []sluice.Demand
	results []sluice.Result
}

// readReceipt returns nil if there is none, and if the id is free again.
func (s *Store) readReceipt(ctx context.Context, key string) (*receipt, error) {
	var raw string
	err := s.trying(ctx, func(ctx context.Context) error {
		var err error
		raw, err = s.db.Client.Do(ctx, s.db.Client.B().Get().Key(key).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			raw, err = "", nil
		}
		return err
	})
	if err != nil || raw == "" {
		return nil, err
	}
	r, err := parseReceipt(raw)
	if err != nil || r.ended == sluice.Release || s.db.Config.Clock != nil && r.expires <= s.db.Config.Clock().UnixMicro() {
		return nil, err
	}
	return r, nil
}

func parseReceipt(raw string) (*receipt, error) {
	rest := scanner{s: raw}
	if rest.small() != version {
		return nil, errReply
	}
	rest.text(1) // whether it is a lease
	r := &receipt{ended: sluice.Action(rest.small())}
	rest.text(16) // when it was taken, and is due
	r.expires, r.print = rest.number(), []byte(rest.text(16))
	rest.text(16) // its holder
	reply := rest.text(rest.length())
	if rest.short || len(reply) < answerSize && rest.s != "" {
		return nil, errReply
	}
	var order []int
	for rest.s != "" {
		n, m := rest.length(), rest.length()
		key, ok := parseRecordKey(rest.text(n))
		arg := rest.text(m)
		if ok {
			r.demands, ok = readArg(arg, key, r.demands)
		}
		if !ok {
			return nil, errReply
		}
		for i := len(arg) - int(arg[1]); i < len(arg); i++ {
			order = append(order, int(arg[i]))
		}
		rest.text(16 * int(arg[1])) // what it costs
	}
	if rest.short || len(reply) < answerSize+len(r.demands)*resultSize && len(r.demands) > 0 {
		return nil, errReply
	}
	r.results = make([]sluice.Result, len(r.demands))
	for i := range r.results {
		readResult(reply[answerSize+i*resultSize:], &r.results[i])
	}
	r.allowed = reply != "" && reply[0]&1 != 0
	r.demands, r.results = asTaken(r.demands, order), asTaken(r.results, order)
	return r, nil
}

// takeOnce decides a take with an id, which may have been taken before: then the
// answer is the one it got, of the buckets it had.
func (s *Store) takeOnce(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	for range maxBegins {
		err := s.takeWith(ctx, t, d)
		mismatch := errors.Is(err, sluice.ErrRequestMismatch)
		if err != nil && !mismatch || err == nil && !d.Repeated && !t.Peek {
			return err
		}
		r, err := s.readReceipt(ctx, receiptKey(t.ID))
		switch {
		case err != nil:
			return err
		case r != nil && !bucket.Repeats(r.print, t, oldPrint):
			return sluice.ErrRequestMismatch
		case r != nil:
			s.replay(t, d, r)
			return nil
		case t.Peek:
			return nil
		} // it has just ended
	}
	return errUnderWay
}

// replay answers as the first time.
func (s *Store) replay(t *sluice.Take, d *sluice.Decision, r *receipt) {
	now := time.Now()
	if s.db.Config.Clock != nil {
		now = s.db.Config.Clock()
	}
	*d = sluice.Decision{
		Allowed: r.allowed, Source: sluice.FromStore, Repeated: true, ID: t.ID, Time: now.Truncate(time.Microsecond),
		Demands: bucket.Then(r.demands, t.Demands), Results: append(d.Results[:0], r.results...),
	}
	d.Conclude()
}

// readParts puts the receipts of a take that is over several records together. It
// returns nil if one is missing.
func (s *Store) readParts(ctx context.Context, t *sluice.Take, dir *directory) (*receipt, error) {
	all := &receipt{allowed: true}
	for i := range dir.Parts {
		r, err := s.readReceipt(ctx, dir.receipt(i))
		if err != nil || r == nil || len(r.demands) != len(dir.Parts[i].Demands) {
			return nil, err
		}
		all.allowed = all.allowed && r.allowed
		for n := range r.demands {
			at := dir.Parts[i].Demands[n].Number
			for len(all.demands) <= at {
				all.demands, all.results = append(all.demands, sluice.Demand{}), append(all.results, sluice.Result{})
			}
			all.demands[at], all.results[at] = r.demands[n], r.results[n]
			if t.UpTo { // it was taken as so much as there was
				all.demands[at].Cost = t.Demands[0].Cost
			}
		}
	}
	return all, nil
}

// repeated answers a take that dir says was taken before, and reports whether it
// was.
func (s *Store) repeated(ctx context.Context, t *sluice.Take, dir *directory, d *sluice.Decision) (bool, error) {
	if dir.Status != taken {
		return false, nil
	}
	r, err := s.readParts(ctx, t, dir)
	if r != nil {
		s.replay(t, d, r)
	}
	return r != nil, err
}

// samePlaces reports whether two directories are of the same buckets.
func (dir *directory) samePlaces(o *directory) bool {
	return slices.EqualFunc(dir.Parts, o.Parts, func(a, b part) bool {
		return string(a.Record) == string(b.Record) && slices.EqualFunc(a.Demands, b.Demands, func(a, b partDemand) bool {
			return a.Number == b.Number && string(a.Limit) == string(b.Limit)
		})
	})
}
