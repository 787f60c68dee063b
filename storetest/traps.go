package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// trapChecks are faults that were found in libraries people use today, each
// with its own check.
func trapChecks() []Check {
	return append([]Check{
		{"trap: asking often mints tokens", 0, trapDrift},
		{"trap: peeking often changes what comes back", 0, trapPeekDrift},
		{"trap: idle, then twice the burst", 0, trapIdleBurst},
		{"trap: a wait that is a microsecond off", 0, trapRetry},
		{"trap: nodes that disagree about a limit mint tokens", 0, trapDisagree},
		{"trap: adjusting back and forth mints tokens", sluice.CanLease, trapLeaseMint},
		{"trap: holding back and forth mints tokens", sluice.CanHold, trapHoldMint},
		{"trap: a negative cost fills the bucket", 0, trapNegative},
		{"trap: numbers too large for a float", 0, trapLarge},
	}, checks([]scenario{
		{name: "trap: a late timestamp rewinds the bucket", steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{time.Second, take(on("a", tenPer, 10)), "yes: took 10, 0 left, full in 2s"},
			{-time.Second, adjust(on("a", tenPer, 0.001)), "yes: took 0.001, -0.001 left, full in 3.0001s"},
			{time.Second, take(on("a", tenPer, 1)), "no: -0.001 left, retry in 100.1ms, full in 2.0001s"},
		}},
		{name: "trap: a bucket is forgotten just before it is full", steps: []step{
			{0, take(on("a", "10/hour", 1)), "yes: took 1, 9 left, full in 6m0s"},
			{6*time.Minute - 1*µs, take(on("a", "10/hour", 10)), "no: 9.999 left, retry in 1µs, full in 1µs"},
			{1 * µs, take(on("a", "10/hour", 10)), "yes: took 10, 0 left, full in 1h0m0s"},
			{0, take(on("b", "7/3s burst 5", 0.001)), "yes: took 0.001, 4.999 left, full in 429µs"},
			{428 * µs, take(on("b", "7/3s burst 5", 5)), "no: 4.999 left, retry in 1µs, full in 1µs"},
		}},
		{name: "trap: a refusal makes a bucket live shorter or longer", steps: []step{
			{0, take(on("a", "10/hour", 10)), "yes: took 10, 0 left, full in 1h0m0s"},
			{59 * time.Minute, take(on("a", "10/hour", 10)), "no: 9.833 left, retry in 1m0s, full in 1m0s"},
			{30 * time.Second, peek(on("a", "10/hour", 10)), "no: 9.916 left, retry in 30s, full in 30s"},
			{30*time.Second - 1*µs, peek(on("a", "10/hour", 10)), "no: 9.999 left, retry in 1µs, full in 1µs"},
			{1 * µs, take(on("a", "10/hour", 10)), "yes: took 10, 0 left, full in 1h0m0s"},
		}},
		{name: "trap: granting 2 and burning 2.9", steps: []step{
			{0, take(on("a", tenPer, 17.1)), "yes: took 17.1, 2.9 left, full in 1.71s"},
			{0, upTo(on("a", tenPer, 5)), "yes: took 2, 0.9 left, full in 1.91s"},
			{0, take(on("a", tenPer, 0.9)), "yes: took 0.9, 0 left, full in 2s"},
		}},
		{name: "trap: a cost above the burst is told to retry", steps: []step{
			{0, take(on("a", tenPer, 25)), "no: 20 left, never"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("a", tenPer, 25)), "no: 0 left, never, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 25)), "no: 0 left, never, full in 2s"},
			{0, list(), "a 10/s burst 20: 0 left, 20 consumed, full in 2s"},
			{0, take(on("f", "10/minute fixed", 11)), "no: 10 left, never"},
			{0, take(on("b", tenPer, 1), on("a", tenPer, 25)), "no: 20 left | 0 left, never, full in 2s"},
		}},
		{name: "trap: tokens spent on one limit when another refused", steps: []step{
			{0, take(on("b", "1/hour", 1)), "yes: took 1, 0 left, full in 1h0m0s"},
			{0, take(on("a", tenPer, 20), on("b", "1/hour", 1)), "no: 20 left | 0 left, retry in 1h0m0s, full in 1h0m0s"},
			{0, take(on("b", "1/hour", 1), on("a", tenPer, 20)), "no: 0 left, retry in 1h0m0s, full in 1h0m0s | 20 left"},
			{0, upTo(on("a", tenPer, 20), on("b", "1/hour", 20)), "no: 20 left | 0 left, retry in 1h0m0s, full in 1h0m0s"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
		}},
		{name: "trap: a fixed window that is not aligned", start: time.Date(2026, time.March, 11, 10, 59, 59, 0, time.UTC), steps: []step{
			{0, take(on("f", "10/hour fixed", 10)), "yes: took 10, 0 left, full in 1s"},
			{time.Second, take(on("f", "10/hour fixed", 10)), "yes: took 10, 0 left, full in 1h0m0s"},
			{time.Hour - 1*µs, take(on("f", "10/hour fixed", 1)), "no: 0 left, retry in 1µs, full in 1µs"},
		}},
		{name: "trap: a lease that is never closed holds its place for ever", needs: sluice.CanLease, steps: []step{
			{0, lease("x", time.Second, on("c", "1 concurrent", 1), on("a", "10/hour", 1)),
				"yes: took 1, 0 left, full in 1s | took 1, 9 left, full in 6m0s"},
			{time.Second, lease("y", time.Second, on("c", "1 concurrent", 1), on("a", "10/hour", 1)),
				"yes: took 1, 0 left, full in 1s | took 1, 8.002 left, full in 11m59s"},
			{0, release("x"), "error: lease is closed or unknown"},
			{0, lease("z", time.Second, on("c", "1 concurrent", 1)), "no: 0 left, retry in 1s, full in 1s"},
		}},
		{name: "trap: a remaining time of nothing read as unset", needs: sluice.CanLease, steps: []step{
			{0, once("r", 1*µs, on("a", "10/hour", 1)), "yes: took 1, 9 left, full in 6m0s"},
			{0, once("r", 1*µs, on("a", "10/hour", 1)), "again yes: took 1, 9 left, full in 6m0s"},
			{1 * µs, once("r", 1*µs, on("a", "10/hour", 1)), "yes: took 1, 8 left, full in 11m59.999999s"},
		}},
	})...)
}

// trapDrift polls a bucket every millisecond, taking a millitoken whenever
// there is one. Rounding either way shows after a while.
func trapDrift(tb testing.TB, open Open) error {
	for _, test := range []struct {
		limit sluice.Limit
		every time.Duration
	}{
		{sluice.Per(100, time.Minute), time.Millisecond},
		{sluice.Limit{Amount: sluice.Thousandths(7000), Period: 3 * time.Second}, 431 * time.Microsecond},
		{sluice.Limit{Amount: sluice.Thousandths(3), Period: 7 * time.Microsecond}, time.Microsecond},
	} {
		s := onStage(tb, open)
		demand := sluice.Demand{Key: s.key("a"), Limit: test.limit, Cost: test.limit.Capacity()}
		if _, err := s.take(demand); err != nil {
			return err
		}
		const polls = 600
		demand.Cost = sluice.Thousandths(1)
		took := int64(0)
		for range polls {
			s.clock.advance(test.every)
			d, err := s.take(demand)
			if err != nil {
				return err
			}
			took += d.Results[0].Consumed.Thousandths()
		}
		d, err := s.decide(sluice.Take{Demands: []sluice.Demand{demand}, Peek: true})
		if err != nil {
			return err
		}
		a, p := test.limit.Rate()
		if err := expect(fmt.Sprintf("%s asked every %s: came back", test.limit, test.every),
			took+d.Results[0].Remaining.Thousandths(), polls*test.every.Microseconds()*a/p); err != nil {
			return err
		}
	}
	return nil
}

func trapPeekDrift(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demand := s.demand("a", "7/3s burst 5", 5)
	if _, err := s.take(demand); err != nil {
		return err
	}
	for range 300 {
		s.clock.advance(431 * time.Microsecond)
		if _, err := s.decide(sluice.Take{Demands: []sluice.Demand{demand}, Peek: true}); err != nil {
			return err
		}
		if _, err := s.take(demand); err != nil { // refused
			return err
		}
	}
	return s.left(demand, 0.301) // 300 × 431 × 7 / 3000 = 301.7 thousandths
}

func trapIdleBurst(tb testing.TB, open Open) error {
	for _, limit := range []string{tenPer, "7/3s burst 5", "100/minute", "10/minute fixed"} {
		s := onStage(tb, open)
		demand := s.demand("a", limit, 1)
		for _, idle := range []time.Duration{0, time.Hour, 1000 * time.Hour, time.Minute} {
			s.clock.advance(idle)
			took := int64(0)
			for range 210 {
				d, err := s.take(demand)
				if err != nil {
					return err
				}
				took += d.Results[0].Consumed.Thousandths()
			}
			if err := expect(fmt.Sprintf("%s, idle for %s: took", limit, idle), took, demand.Limit.Capacity().Thousandths()); err != nil {
				return err
			}
		}
	}
	return nil
}

// trapRetry waits for what refusals said: one microsecond less must not be
// enough, and exactly so much must be.
func trapRetry(tb testing.TB, open Open) error {
	r := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []string{tenPer, "7/3s burst 5", "100/minute", "3/7us burst 4", "13/24h", "10/minute fixed", "10/day Europe/Madrid"} {
		s := onStage(tb, open)
		demand := s.demand("a", limit, 1)
		capacity := demand.Limit.Capacity().Thousandths()
		for takes, refused := 0, 0; refused < 25; takes++ {
			if takes > 1000 {
				return fmt.Errorf("%s: hardly anything is refused", limit)
			}
			demand.Cost = sluice.Thousandths(1 + r.Int64N(capacity))
			d, err := s.take(demand)
			if err != nil {
				return err
			}
			if d.Allowed {
				continue
			}
			refused++
			s.clock.advance(d.RetryAfter - time.Microsecond)
			early, err := s.decide(sluice.Take{Demands: []sluice.Demand{demand}, Peek: true})
			if err != nil {
				return err
			}
			s.clock.advance(time.Microsecond)
			due, err := s.take(demand)
			if err != nil {
				return err
			}
			if early.Allowed || early.RetryAfter != time.Microsecond || !due.Allowed {
				return fmt.Errorf("%s: %s, to retry in %s\na microsecond earlier: %s\nthen: %s", limit,
					tell(&d, nil), d.RetryAfter, tell(&early, nil), tell(&due, nil))
			}
		}
	}
	return nil
}

// trapDisagree takes under one limit and the other in turns. Together they
// must stay within the larger burst and the faster rate.
func trapDisagree(tb testing.TB, open Open) error {
	for _, test := range []struct{ a, b, both string }{
		{"10/s burst 20", "5/s burst 30", "10/s burst 30"},
		{"7/3s burst 5", "100/minute burst 6", "7/3s burst 6"},
		{"1/day burst 3", "10/s burst 2", "10/s burst 3"},
		{"3/7us burst 4", "100/s burst 4", "3/7us burst 4"},
	} {
		s := onStage(tb, open)
		both := sluice.MustParse(test.both)
		step := max(both.Period/time.Duration(both.Amount.Thousandths()/sluice.Token)/7, time.Microsecond)
		var h History
		for i := range 400 {
			demand := s.demand("a", []string{test.a, test.b}[i%2], 1)
			demand.Cost = sluice.Thousandths(int64(100 * (1 + i%5)))
			d, err := s.take(demand)
			if err != nil {
				return err
			}
			now := s.clock.now().UnixMicro()
			h.Add(now, now, d.Results[0].Consumed.Thousandths())
			if i%4 == 3 {
				s.clock.advance(step)
			}
		}
		if err := h.Check(both); err != nil {
			return fmt.Errorf("%s and %s in turns: %w", test.a, test.b, err)
		}
	}
	return nil
}

// trapLeaseMint adjusts a lease up and down again, while refill goes on and
// others take what they can.
func trapLeaseMint(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demand := s.demand("a", tenPer, 5)
	var h History
	note := func(d *sluice.Decision) {
		now := s.clock.now().UnixMicro()
		h.Add(now, now, d.Results[0].Consumed.Thousandths())
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		id := s.id(fmt.Sprint(i))
		d, err := s.decide(sluice.Take{Demands: []sluice.Demand{demand}, ID: id, Lease: true, Keep: time.Hour})
		if err != nil {
			return err
		}
		note(&d)
		for range 6 {
			s.clock.advance(time.Duration(r.IntN(200)) * time.Millisecond)
			if d.Allowed {
				// Never above what it first took, so that there is no debt.
				st := sluice.Settlement{ID: id, Costs: []sluice.LimitCost{{Limit: "a", Cost: sluice.Thousandths(int64(r.IntN(5000)))}}}
				settled, err := s.limiter.Settle(s.tb.Context(), st)
				if err != nil {
					return err
				}
				note(&settled)
				if settled.Results[0].Consumed.Thousandths() > 0 && settled.Results[0].Remaining.Thousandths() < 0 {
					if err := s.limiter.Reset(s.tb.Context(), demand.Key); err != nil {
						return err
					}
					h = History{} // a new life
				}
			}
			other, err := s.limiter.TakeUpTo(s.tb.Context(), s.demand("a", tenPer, 3))
			if err != nil {
				return err
			}
			note(&other)
		}
	}
	return h.Check(demand.Limit)
}

// trapHoldMint returns holds early, late and twice. What nodes spent and what
// was taken must stay within the bound.
func trapHoldMint(tb testing.TB, open Open) error {
	for _, limit := range []string{tenPer, "10/s fixed"} {
		s := onStage(tb, open)
		demand := s.demand("a", limit, 1)
		var h History
		note := func(n int64) {
			now := s.clock.now().UnixMicro()
			h.Add(now, now, n)
		}
		r := rand.New(rand.NewPCG(5, 6))
		for i := range uint64(300) {
			grants := make([]sluice.Grant, 1)
			err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{{
				Key: demand.Key, Limit: demand.Limit, ID: holdID(i + 1), Max: sluice.Thousandths(amount(float64(1 + r.IntN(20)))), TTL: 300 * time.Millisecond,
			}}, grants)
			if err != nil {
				return err
			}
			g := grants[0]
			spent := g.Amount.Thousandths() * int64(r.IntN(3)) / 2
			note(spent) // at once, which is the worst it can do
			s.clock.advance(time.Duration(r.IntN(600)) * time.Millisecond)
			back := sluice.HoldReturn{Key: demand.Key, Limit: demand.Limit, ID: holdID(i + 1), Spent: sluice.Thousandths(spent)}
			for range 1 + r.IntN(3) {
				if err := s.store.Return(s.tb.Context(), []sluice.HoldReturn{back}); err != nil {
					return err
				}
			}
			d, err := s.limiter.TakeUpTo(s.tb.Context(), s.demand("a", limit, float64(1+r.IntN(25))))
			if err != nil {
				return err
			}
			note(d.Results[0].Consumed.Thousandths())
		}
		if err := h.Check(demand.Limit); err != nil {
			return fmt.Errorf("%s: %w", limit, err)
		}
	}
	return nil
}

func trapNegative(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demand := s.demand("a", tenPer, 20)
	if _, err := s.take(demand); err != nil {
		return err
	}
	demand.Cost = sluice.Thousandths(-amount(20))
	for _, t := range []sluice.Take{{}, {Peek: true}, {UpTo: true}} {
		t.Demands = []sluice.Demand{demand}
		if d, err := s.decide(t); err == nil {
			return fmt.Errorf("a negative cost: got %s, want an error", tell(&d, nil))
		}
	}
	return s.left(s.demand("a", tenPer, 1), 0)
}

// trapLarge goes to the ends of the range in which every store's integers
// have to be exact.
func trapLarge(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	limit := sluice.Limit{Amount: sluice.Thousandths(sluice.MaxThousandths), Period: time.Second} // 10⁹ thousandths in a microsecond
	step := func(what string, cost int64, want string) error {
		d, err := s.take(sluice.Demand{Key: s.key("a"), Limit: limit, Cost: sluice.Thousandths(cost)})
		return errors.Join(err, expect(what, tell(&d, err), want))
	}
	if err := errors.Join(
		step("all but one", sluice.MaxThousandths-1, "yes: took 999999999999.999, 0.001 left, full in 1s"),
		step("one too many", 2, "no: 0.001 left, retry in 1µs, full in 1s"),
		step("the last one", 1, "yes: took 0.001, 0 left, full in 1s"),
	); err != nil {
		return err
	}
	s.clock.advance(999_999 * time.Microsecond)
	if err := step("a microsecond early", sluice.MaxThousandths, "no: 999999000000 left, retry in 1µs, full in 1µs"); err != nil {
		return err
	}
	// The longest period with an amount that just stays within 53 bits.
	slow := sluice.Demand{Key: s.key("slow"), Limit: sluice.Limit{Amount: sluice.Thousandths(56), Period: 5*365*24*time.Hour + time.Microsecond, Burst: sluice.Thousandths(sluice.MaxThousandths)}, Cost: sluice.Thousandths(57)}
	if _, err := s.take(slow); err != nil {
		return err
	}
	s.clock.advance(slow.Limit.Period - time.Microsecond)
	d, err := s.decide(sluice.Take{Demands: []sluice.Demand{slow}, Peek: true})
	if err != nil {
		return err
	}
	return expect("slow: "+tell(&d, nil), d.Results[0].Remaining.Thousandths(), sluice.MaxThousandths-2)
}
