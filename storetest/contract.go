package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// contractChecks are about what the interface promises beside the numbers.
func contractChecks() []Check {
	return []Check{
		{"contract: the summary of a decision", 0, checkSummary},
		{"contract: a used decision is written over", 0, checkReuse},
		{"contract: what callers do with their memory", sluice.CanLease, checkAliasing},
		{"contract: the parts of a key are kept apart", 0, checkKeysApart},
		{"contract: keys of any bytes", 0, checkOddKeys},
		{"contract: ids of any bytes", sluice.CanLease, checkOddIDs},
		{"contract: a limit that is not valid changes nothing", 0, checkInvalidLimit},
		{"contract: a request to hold that is not valid changes nothing", sluice.CanHold, checkInvalidHold},
		{"contract: costs that a lease cannot have change nothing", sluice.CanLease, checkInvalidCosts},
		{"contract: as many demands as there may be", 0, checkManyDemands},
		{"contract: requests to hold are served in order", sluice.CanHold, checkHoldOrder},
		{"contract: a bucket has a bounded number of holds", sluice.CanHold, checkManyHolds},
		{"contract: list finds by entity and resource, in pages", sluice.CanList, checkList},
		{"contract: what is forgotten is unknown", sluice.CanLease, checkForget},
		{"contract: a closed store says so", 0, checkClosed},
	}
}

// onStage starts a check on one store.
func onStage(tb testing.TB, open Open) *stage { return newStage(tb, open, epoch) }

func (s *stage) decide(t sluice.Take) (sluice.Decision, error) {
	var d sluice.Decision
	err := s.limiter.Decide(s.tb.Context(), &t, &d)
	return d, err
}

func (s *stage) take(demands ...sluice.Demand) (sluice.Decision, error) {
	return s.decide(sluice.Take{Demands: demands})
}

// left is an error unless so much is left in the bucket of a demand.
func (s *stage) left(d sluice.Demand, want float64) error {
	got, err := s.decide(sluice.Take{Demands: []sluice.Demand{d}, Peek: true})
	if err != nil {
		return err
	}
	return expect("left in "+d.Key.Limit, got.Results[0].Remaining.Thousandths(), amount(want))
}

func checkSummary(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	scarce := s.demand("scarce", "10/s", 8)
	scarce.Level = sluice.LevelTier
	plenty := s.demand("plenty", "100/s", 10)
	d, err := s.take(plenty, scarce)
	if err != nil {
		return err
	}
	err = errors.Join(
		expect("granted", d.Granted.Thousandths(), amount(10)),
		expect("decider", d.Decider, 1),
		expect("retry after", d.RetryAfter, 0),
		expect("source", d.Source, sluice.FromStore),
		expect("repeated", d.Repeated, false),
		expect("time", d.Time.UnixMicro(), epoch.UnixMicro()),
		expect("number of demands", len(d.Demands), 2),
		expect("number of results", len(d.Results), 2),
	)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(d.Demands, []sluice.Demand{plenty, scarce}) {
		return fmt.Errorf("demands: got %+v", d.Demands)
	}
	// Of two refusals the one to wait longer for decides.
	plenty.Cost, scarce.Cost = sluice.Thousandths(amount(95)), sluice.Thousandths(amount(7))
	if d, err = s.take(scarce, plenty); err != nil {
		return err
	}
	err = errors.Join(
		expect("refused: allowed", d.Allowed, false),
		expect("refused: granted", d.Granted.Thousandths(), 0),
		expect("refused: decider", d.Decider, 0),
		expect("refused: retry after", d.RetryAfter, 500*time.Millisecond),
	)
	var refused *sluice.RefusedError
	if !errors.As(d.Err(), &refused) || refused.Demand.Level != sluice.LevelTier {
		err = errors.Join(err, fmt.Errorf("refused: the error %v does not tell the level", d.Err()))
	}
	scarce.Cost = sluice.Thousandths(amount(11))
	if d, err := s.take(plenty, scarce); err != nil || d.RetryAfter != sluice.Never || d.Decider != 1 {
		return errors.Join(err, fmt.Errorf("impossible: retry after %s, decided by %d", d.RetryAfter, d.Decider))
	}
	return err
}

func checkReuse(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	junk := func(n int) sluice.Decision {
		d := sluice.Decision{
			Allowed: true, Granted: sluice.Thousandths(7), RetryAfter: 7, Decider: 7, Source: sluice.Unknown,
			Repeated: true, ID: "junk", Time: time.Unix(7, 0), Taken: time.Unix(7, 0), Demands: make([]sluice.Demand, n),
		}
		for range n {
			d.Results = append(d.Results, sluice.Result{
				Fits: true, Consumed: sluice.Thousandths(7), Returned: sluice.Thousandths(7), Remaining: sluice.Thousandths(7), Free: sluice.Thousandths(7), RetryAfter: 7, LatestAfter: 7, ResetAfter: 7, Held: true, Unknown: true,
			})
		}
		return d
	}
	demands := []sluice.Demand{s.demand("a", tenPer, 5), s.demand("b", tenPer, 21)}
	for i, t := range []sluice.Take{{Demands: demands}, {Demands: demands[:1]}, {Demands: demands, Peek: true}} {
		for _, n := range []int{0, 1, 5} {
			d := junk(n)
			if err := s.limiter.Decide(s.tb.Context(), &t, &d); err != nil {
				return err
			}
			fresh, err := s.decide(sluice.Take{Demands: t.Demands, Peek: true})
			if err != nil {
				return err
			}
			if !t.Peek && d.Allowed { // undo it, so that the next is the same
				if _, err := s.limiter.Adjust(s.tb.Context(), sluice.Demand{Key: s.key("a"), Limit: demands[0].Limit, Cost: sluice.Thousandths(-amount(5))}); err != nil {
					return err
				}
				fresh.Granted, fresh.Results[0].Consumed = sluice.Thousandths(amount(5)), sluice.Thousandths(amount(5))
			}
			if err := sameDecision(&d, &fresh); err != nil {
				return fmt.Errorf("take %d into a used decision with %d results: %w", i, n, err)
			}
		}
	}
	return nil
}

func checkAliasing(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	first := []sluice.Demand{s.demand("a", tenPer, 5)}
	take := sluice.Take{Demands: first, ID: s.id("x"), Lease: true}
	var d sluice.Decision
	if err := s.limiter.Decide(s.tb.Context(), &take, &d); err != nil {
		return err
	}
	// The caller uses its demands and its decision for something else.
	first[0] = s.demand("b", tenPer, 1)
	if err := s.limiter.Decide(s.tb.Context(), &sluice.Take{Demands: first}, &d); err != nil {
		return err
	}
	again, err := s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", tenPer, 5)}, ID: s.id("x"), Lease: true})
	if err != nil {
		return fmt.Errorf("repeated: %w", err)
	}
	if got, want := tell(&again, nil), "again yes: took 5, 15 left, full in 500ms"; got != want {
		return fmt.Errorf("repeated: got %s, want %s", got, want)
	}
	again.Results[0] = sluice.Result{} // not the store's own either
	if again, err = s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", tenPer, 5)}, ID: s.id("x"), Lease: true}); err != nil {
		return err
	}
	if got, want := tell(&again, nil), "again yes: took 5, 15 left, full in 500ms"; got != want {
		return fmt.Errorf("repeated after its results were changed: got %s, want %s", got, want)
	}
	again.Demands[0] = s.demand("b", tenPer, 1)
	settled, err := s.limiter.Settle(s.tb.Context(), sluice.Settlement{ID: s.id("x"), Action: sluice.Release})
	if err != nil {
		return err
	}
	settled.Demands[0] = s.demand("c", tenPer, 1)
	return errors.Join(s.left(s.demand("a", tenPer, 1), 20), s.left(s.demand("b", tenPer, 1), 19))
}

// distinct takes everything from one bucket after the other, which works only
// if none of them is another.
func (s *stage) distinct(keys []sluice.Key) error {
	for i, k := range keys {
		demand := sluice.Demand{Key: k, Limit: sluice.Per(10, time.Hour), Cost: sluice.Tokens(int64(i + 1))}
		if d, err := s.take(demand); err != nil || !d.Allowed || d.Results[0].Remaining.Thousandths() != amount(9-float64(i)) {
			return errors.Join(err, fmt.Errorf("key %+q: got %s", k, tell(&d, err)))
		}
	}
	for i, k := range keys {
		if err := s.left(sluice.Demand{Key: k, Limit: sluice.Per(10, time.Hour)}, 9-float64(i)); err != nil {
			return fmt.Errorf("key %+q afterwards: %w", k, err)
		}
	}
	return nil
}

func checkKeysApart(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	ns := s.namespace
	for _, sep := range []string{"/", ":", "|", "#", "\x00", "}{"} {
		err := s.distinct([]sluice.Key{
			{Namespace: ns, Entity: "a" + sep + "b", Resource: sep, Limit: "d"},
			{Namespace: ns, Entity: "a", Resource: "b" + sep + sep, Limit: "d"},
			{Namespace: ns, Entity: "a", Resource: "b" + sep, Limit: sep + "d"},
			{Namespace: ns, Entity: "a" + sep + "b" + sep, Limit: "d"},
			{Namespace: ns + sep + "a", Entity: "b", Resource: sep, Limit: "d"},
			{Namespace: ns, Resource: "a" + sep + "b", Limit: "d" + sep},
			{Namespace: ns, Entity: "A" + sep + "b", Resource: sep, Limit: "d"},
		})
		if err != nil {
			return fmt.Errorf("with %q in the parts: %w", sep, err)
		}
		s.namespace += "-"
		ns = s.namespace
	}
	return s.distinct([]sluice.Key{
		{Namespace: ns, Entity: "ab", Resource: "c", Limit: "d"},
		{Namespace: ns, Entity: "a", Resource: "bc", Limit: "d"},
		{Namespace: ns, Entity: "a", Resource: "b", Limit: "cd"},
		{Namespace: ns, Entity: "abcd"}, {Namespace: ns, Resource: "abcd"}, {Namespace: ns, Limit: "abcd"},
	})
}

func checkOddKeys(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	ns := s.namespace
	return s.distinct([]sluice.Key{
		{Namespace: ns},
		{Namespace: ns, Entity: strings.Repeat("x", sluice.MaxKeyPart)},
		{Namespace: ns, Entity: strings.Repeat("x", sluice.MaxKeyPart-1) + "y", Resource: strings.Repeat("z", sluice.MaxKeyPart), Limit: strings.Repeat("z", sluice.MaxKeyPart)},
		{Namespace: ns, Entity: "\x00\x01\xff\xfe", Limit: "\x80"},
		{Namespace: ns, Entity: "'; drop table buckets; --", Resource: "%s%d", Limit: "{a}{b}*?[c]\\"},
		{Namespace: ns, Entity: " ñ\u00e9e\u0301\U0001f600\r\n\t ", Limit: "\""},
		{Namespace: ns, Entity: " ñ\u00e9\u00e9\U0001f600\r\n\t ", Limit: "\""},
	})
}

func checkOddIDs(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	ids := []string{
		s.id("\x00\xff"), s.id("\x00\xfe"), s.id("{x}'\"\\ %s\n"), s.id(strings.Repeat("x", sluice.MaxID-len(s.id("")))),
	}
	for i, id := range ids {
		for n := range 2 {
			d, err := s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", "10/hour", 1)}, ID: id, Lease: true})
			if err != nil {
				return fmt.Errorf("id %+q: %w", id, err)
			}
			err = errors.Join(
				expect("repeated", d.Repeated, n > 0),
				expect("id", d.ID, id),
				expect("left", d.Results[0].Remaining.Thousandths(), amount(9-float64(i))),
			)
			if err != nil {
				return fmt.Errorf("id %+q: %w", id, err)
			}
		}
	}
	for _, id := range ids {
		if err := s.limiter.Lease(id).Release(s.tb.Context()); err != nil {
			return fmt.Errorf("id %+q: %w", id, err)
		}
	}
	return s.left(s.demand("a", "10/hour", 1), 10)
}

func checkInvalidLimit(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	good := s.demand("a", tenPer, 1)
	for _, l := range []sluice.Limit{
		{}, {Amount: sluice.Thousandths(-1), Period: time.Second}, {Amount: sluice.Thousandths(1000), Period: time.Nanosecond},
		{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1000), Calendar: sluice.CalendarDay, Zone: "Nowhere/Land"},
		{Amount: sluice.Thousandths(sluice.MaxThousandths - 1), Period: 1_000_003 * time.Microsecond},
	} {
		bad := sluice.Demand{Key: s.key("b"), Limit: l}
		for _, demands := range [][]sluice.Demand{{good, bad}, {bad, good}} {
			if d, err := s.take(demands...); err == nil {
				return fmt.Errorf("a take under %+v: got %s, want an error", l, tell(&d, nil))
			}
			bad.Cost = sluice.Tokens(1)
			if d, err := s.limiter.Adjust(s.tb.Context(), demands...); err == nil {
				return fmt.Errorf("an adjustment under %+v: got %s, want an error", l, tell(&d, nil))
			}
		}
	}
	return errors.Join(s.left(good, 20), s.left(s.demand("b", tenPer, 1), 20))
}

func checkManyDemands(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demands := make([]sluice.Demand, sluice.MaxDemands)
	for i := range demands {
		demands[i] = s.demand(fmt.Sprintf("limit %d", i), tenPer, 15)
	}
	for _, want := range []bool{true, false} {
		d, err := s.take(demands...)
		if err != nil {
			return err
		}
		for i, r := range d.Results {
			err = errors.Join(err, expect(fmt.Sprintf("demand %d: left", i), r.Remaining.Thousandths(), amount(5)))
		}
		if err = errors.Join(err, expect("allowed", d.Allowed, want)); err != nil {
			return err
		}
	}
	return nil
}

func checkClosed(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	if err := s.store.Close(); err != nil {
		return err
	}
	ctx := s.tb.Context()
	demand := s.demand("a", tenPer, 1)
	_, took := s.take(demand)
	_, adjusted := s.limiter.Adjust(ctx, demand)
	for name, err := range map[string]error{"take": took, "adjust": adjusted, "reset": s.limiter.Reset(ctx, demand.Key)} {
		if !errors.Is(err, sluice.ErrClosed) {
			return fmt.Errorf("%s: got %v, want %v", name, err, sluice.ErrClosed)
		}
	}
	return nil
}
