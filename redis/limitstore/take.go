package limitstore

import (
	"context"
	"crypto/sha256"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Options of a take, as in take.lua.
const (
	optionLease = 1 << iota
	optionPeek
	optionUpTo
	optionRefuse
	optionPart
	optionNever
)

// optionsAt is where in the first argument of a take its options are.
const optionsAt = 9

// Take decides t in one call, unless it is over several slots of a cluster or
// has an id there.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	if s.db.Cluster && (t.ID != "" || !oneRecord(t.Demands)) {
		return s.takeInCluster(ctx, t, d)
	}
	if t.ID != "" {
		return s.takeOnce(ctx, t, d)
	}
	return s.takeWith(ctx, t, d)
}

// takeWith decides t in one call, with the windows of its calendar limits.
func (s *Store) takeWith(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	for i := range t.Demands {
		if t.Demands[i].Limit.Calendar != sluice.NoCalendar {
			return s.withWindows(func(now int64) error { return s.take(ctx, t, d, now) })
		}
	}
	return s.take(ctx, t, d, 0)
}

func oneRecord(demands []sluice.Demand) bool {
	for i := 1; i < len(demands); i++ {
		if !sameRecord(&demands[0].Key, &demands[i].Key) {
			return false
		}
	}
	return true
}

// take decides t with calendar windows around now.
func (s *Store) take(ctx context.Context, t *sluice.Take, d *sluice.Decision, now int64) error {
	_, err := s.takeSome(ctx, t, d, now)
	return err
}

// takeSome is take. Of a take up to an amount it also answers how much there is.
func (s *Store) takeSome(ctx context.Context, t *sluice.Take, d *sluice.Decision, now int64) (int64, error) {
	r := requests.Get().(*request)
	r.numbered = t.ID != ""
	if err := s.add(r, t.Demands, now); err != nil {
		return 0, err
	}
	r.acknowledge = s.certain(t)
	reply, err := s.ask(ctx, t, r)
	if err != nil {
		return 0, err // it may still be on its way
	}
	if err = readTake(reply, r, t, d); err == nil {
		err = s.acknowledgment(r, d)
	}
	r.free()
	if err != nil || !t.UpTo {
		return 0, err
	}
	return readNumber(reply[9:]), nil
}

// ask sends a take in the way that fits.
func (s *Store) ask(ctx context.Context, t *sluice.Take, r *request) (string, error) {
	if t.ID == "" && !t.Peek && !t.UpTo && t.Ticket.ID == (sluice.HoldID{}) {
		if s.db.Config.Separate || r.acknowledge {
			return s.call(ctx, r.firstOfTakes(), r)
		}
		return s.combined(ctx, r)
	}
	if t.ID != "" && !t.Peek {
		r.keys = append(r.keys, receiptKey(t.ID))
	}
	return s.call(ctx, r.first(takeHeader(t)), r)
}

// takeHeader starts the first argument of a take with options.
func takeHeader(t *sluice.Take) []byte {
	var options byte
	if t.Lease {
		options |= optionLease
	}
	if t.Peek {
		options |= optionPeek
	}
	if t.UpTo {
		options |= optionUpTo
	}
	b := append(header(fullTake), options)
	b = appendNumber(b, t.Ticket.Rank.Microseconds())
	b = appendNumber(b, t.Keep.Microseconds())
	b = append(b, printOf(t)...)
	b = append(b, digest(t.ID)...)
	return appendHoldID(b, t.Ticket.ID)
}

// digest stands for an id where a fixed length is easier.
func digest(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:16]
}

// printOf tells takes with one id apart.
func printOf(t *sluice.Take) []byte {
	if t.ID == "" {
		return make([]byte, 16)
	}
	return bucket.Print(t)
}

// oldPrint is what earlier versions told them apart by.
func oldPrint(t *sluice.Take) []byte {
	h := sha256.New()
	var b []byte
	b = append(b, boolByte(t.Lease), boolByte(t.UpTo))
	for i := range t.Demands {
		d := &t.Demands[i]
		for _, part := range [...]string{d.Key.Namespace, d.Key.Entity, d.Key.Resource, d.Key.Limit} {
			b = append(append(b, byte(len(part))), part...)
		}
		b = appendNumber(append(b, demandFlags(d)), d.Charge().Thousandths())
		b = appendLimit(b, &d.Limit)
		b = append(b, 0) // ends the zone
	}
	h.Write(b)
	return h.Sum(nil)[:16]
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
