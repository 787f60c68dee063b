package limitstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
)

// Flags of takes and demands, as take_v2 reads them. What else a demand has is
// kept above them, for those who settle a lease.
const (
	takePeek  = 1
	takeUpTo  = 2
	takeLease = 4

	demandShadow       = 1
	demandCountRefused = 2
	demandCritical     = 4
	unavailableShift   = 3 // two bits
	levelShift         = 5 // three bits
)

// Verdicts of take_v2.
const (
	_ = iota // refused
	allowed
	refusedBefore
	allowedBefore
	mismatch
	lost // in the calendar
)

// generalArgs are the arguments of take_v2 that take_plain_v2 has not.
type generalArgs struct {
	takeFlags, demandFlags []int16
	keeps                  []int64
	ids                    []string
	prints                 [][]byte
	nodes, seqs, ranks     []int64 // of tickets
	hint                   int64
}

// sendGeneral has a batch decided by take_v2.
func (s *Store) sendGeneral(b *batch) {
	b.number()
	var a generalArgs
	for _, r := range b.requests {
		a.add(r)
	}
	if err := s.bound(&b.limits, a.hint); err != nil {
		b.fail(err)
		return
	}
	var (
		k, l                       = &b.keys, &b.limits
		now                        int64
		verdicts                   []int16
		times                      []int64
		fits, helds, roomy         []bool
		consumed, remaining, frees []int64
		retries, resets            []int64
	)
	err := s.call(s.db.Life(), &now, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql.take,
			s.db.Given(), s.db.Patience(), b.glance(&s.marks),
			k.namespaces, k.entities, k.resources, k.names,
			l.algorithms, l.amounts, l.periods, l.bursts, l.calendars, l.zones, l.bounds,
			b.sizes, a.takeFlags, a.keeps, a.ids, a.prints, a.nodes, a.seqs, a.ranks,
			b.places, b.rules, b.costs, a.demandFlags,
		).Scan(&now, &verdicts, &times, &fits, &helds, &roomy, &consumed, &remaining, &frees, &retries, &resets)
	})
	if err != nil {
		b.fail(err)
		return
	}
	demand := 0
	for t, r := range b.requests {
		first := demand
		demand += len(r.keys)
		d := &r.decision
		switch verdicts[t] {
		case mismatch:
			r.answer(fmt.Errorf("take %q: %w", r.take.ID, sluice.ErrRequestMismatch))
			continue
		case lost:
			s.takeAgain(r, times[t])
			continue
		case refusedBefore, allowedBefore:
			d.Repeated = true
		}
		d.Allowed = verdicts[t] == allowed || verdicts[t] == allowedBefore
		d.Time = time.UnixMicro(times[t])
		for i := range d.Results {
			n := first + i
			d.Results[i] = sluice.Result{
				Fits:       fits[n],
				Held:       helds[n],
				Consumed:   sluice.Thousandths(consumed[n]),
				Remaining:  sluice.Thousandths(remaining[n]),
				Free:       sluice.Thousandths(frees[n]),
				RetryAfter: duration(retries[n]),
				ResetAfter: duration(resets[n]),
			}
			s.marks.setTight(r.hashes[i], !fits[n])
			if roomy[n] {
				s.watch.made(r.take.Demands[i].Key)
			}
		}
		r.answer(nil)
	}
}

// takeAgain sends r with the calendar windows of another time.
func (s *Store) takeAgain(r *request, hint int64) {
	r.hint = hint
	if r.tries++; r.tries > maxTries {
		r.answer(postgres.UnavailableError(errDrift))
		return
	}
	s.takes.resubmit(r)
}

func (a *generalArgs) add(r *request) {
	t := &r.take
	flags := int16(0)
	for _, f := range [...]struct {
		set  bool
		flag int16
	}{{t.Peek, takePeek}, {t.UpTo, takeUpTo}, {t.Lease, takeLease}} {
		if f.set {
			flags |= f.flag
		}
	}
	a.takeFlags = append(a.takeFlags, flags)
	a.keeps = append(a.keeps, t.Keep.Microseconds())
	a.ids = append(a.ids, postgres.Text(t.ID))
	var print []byte
	if t.ID != "" {
		print = bucket.Print(t)
	}
	a.prints = append(a.prints, print)
	a.nodes, a.seqs = append(a.nodes, int64(t.Ticket.ID.Node)), append(a.seqs, int64(t.Ticket.ID.Seq))
	a.ranks = append(a.ranks, t.Ticket.Rank.Microseconds())
	for i := range t.Demands {
		a.demandFlags = append(a.demandFlags, demandFlags(&t.Demands[i]))
	}
	a.hint = max(a.hint, r.hint)
}

func demandFlags(d *sluice.Demand) int16 {
	flags := int16(d.OnUnavailable)<<unavailableShift | int16(d.Level)<<levelShift
	if d.Shadow {
		flags |= demandShadow
	}
	if d.CountRefused {
		flags |= demandCountRefused
	}
	if d.Critical {
		flags |= demandCritical
	}
	return flags
}

// setFlags is the inverse of demandFlags.
func setFlags(d *sluice.Demand, flags int16) {
	d.Shadow = flags&demandShadow != 0
	d.CountRefused = flags&demandCountRefused != 0
	d.Critical = flags&demandCritical != 0
	d.OnUnavailable = sluice.OnUnavailable(flags >> unavailableShift & 3)
	d.Level = sluice.Level(flags >> levelShift & 7)
}

// oldPrint is what earlier versions told takes with one id apart by.
func oldPrint(t *sluice.Take) []byte {
	h := sha256.New()
	number := func(n int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	word := func(s string) {
		number(int64(len(s)))
		h.Write([]byte(s))
	}
	flag := func(b bool) {
		if b {
			number(1)
		} else {
			number(0)
		}
	}
	flag(t.UpTo)
	flag(t.Lease)
	for i := range t.Demands {
		d := &t.Demands[i]
		word(d.Key.Namespace)
		word(d.Key.Entity)
		word(d.Key.Resource)
		word(d.Key.Limit)
		number(int64(d.Limit.Algorithm))
		number(d.Limit.Amount.Thousandths())
		number(d.Limit.Period.Microseconds())
		number(d.Limit.Burst.Thousandths())
		number(int64(d.Limit.Calendar))
		word(d.Limit.Zone)
		number(d.Charge().Thousandths())
		flag(d.Shadow)
		flag(d.CountRefused)
	}
	return h.Sum(nil)[:16]
}
