package failover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// ruled is a demand of one entity on a limit of that rule.
func ruled(rule string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: "a", Limit: rule}, Limit: sluice.MustParse(rule)}
}

func three() int { return 3 }

// A caller at half of its limit, who asks three nodes in turn, does not notice an
// outage of 2 s, whatever tier it has.
func TestCallersAtHalfOfTheirLimitDoNotNoticeAStall(t *testing.T) {
	const fifth = 200 * time.Millisecond
	for _, c := range []struct {
		rules []string
		pace  time.Duration
	}{
		{[]string{"10/s"}, fifth},
		{[]string{"100/s"}, fifth / 10},
		{[]string{"10/s", "1000/day"}, fifth}, // a day's worth is there at once
		{[]string{"10/s", "1000/day UTC"}, fifth},
		{[]string{"600/minute sliding"}, fifth},
		{[]string{"1000/hour", "10/s burst 1"}, fifth},
	} {
		for _, tier := range []string{"", "free", "pro", "other"} {
			synctest.Test(t, func(t *testing.T) {
				var nodes [3]*sluice.Limiter
				var faults [3]*faulty
				for i := range nodes {
					nodes[i], _, faults[i] = open(t, failover.Config{Quotas: failover.DefaultQuotas(), Nodes: three})
				}
				var demands []sluice.Demand
				for _, rule := range c.rules {
					demands = append(demands, ruled(rule))
				}
				refused, asked := 0, 0
				start := time.Now()
				for ; time.Since(start) < 8*time.Second; asked++ {
					for _, f := range faults {
						f.set(none)
						if since := time.Since(start); since > 2*time.Second && since < 4*time.Second {
							f.set(hangs)
						}
					}
					began := time.Now()
					if !decide(t, nodes[asked%3], tier, demands...).Allowed {
						refused++
					}
					time.Sleep(max(0, c.pace-time.Since(began)))
				}
				if refused*100 > asked {
					t.Errorf("%v, tier %q: %d of %d calls were refused", c.rules, tier, refused, asked)
				}
			})
		}
	}
}

// Without the store, a limit lets pass what it would in 5 s, or a twentieth of what
// it lets pass at once, over all nodes, and the quota on each.
func TestABridgedOutageAddsAStatedAmount(t *testing.T) {
	for rule, c := range map[string]struct{ atOnce, inAnHour int }{
		"12/s":              {20 + 2, 20 + 2 + 20*12 + 150},
		"1000/day":          {16 + 2, 16 + 2 + 17*12 + 150}, // and not 333
		"1000/day UTC":      {16 + 2, 16 + 2 + 17*12 + 150},
		"60/hour":           {1 + 2, 1 + 2 + 12 + 150},
		"6/hour":            {2, 2 + 150}, // less than one
		"5 concurrent":      {2, 2 + 150},
		"1/s burst 1":       {1 + 2, 1 + 2 + 1*20 + 150},
		"3000/minute fixed": {83 + 2, 83 + 2 + 84*12 + 150},
		"6000/2m":           {100 + 2, 100 + 2 + 100*12 + 150},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{Quotas: failover.DefaultQuotas(), Nodes: three})
			breakOpen(t, l, s, f)
			got := 0
			dm := ruled(rule)
			ask := func() {
				var d sluice.Decision
				take := &sluice.Take{Demands: []sluice.Demand{dm}, Lease: dm.Limit.Algorithm == sluice.Concurrency}
				if err := l.Decide(t.Context(), take, &d); err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					got++
				}
			}
			for range 1000 {
				ask()
			}
			if got != c.atOnce {
				t.Errorf("%s: %d at once on one of three nodes, want %d", rule, got, c.atOnce)
			}
			for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(time.Second) {
				ask()
			}
			if got > c.inAnHour {
				t.Errorf("%s: %d in an hour, want at most %d", rule, got, c.inAnHour)
			}
		})
	}
}

// A take of several limits passes if all of them let it, each at its own cost, and
// what another limit of the entity has used is no matter.
func TestEachLimitIsBridgedAtItsOwnCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Quotas: map[string]failover.Quota{"": {Limit: sluice.MustParse("1/day"), Bridge: time.Second}}})
		breakOpen(t, l, s, f)
		requests, tokens, other := ruled("10/s"), ruled("1000/s"), ruled("5/s")
		tokens.Cost = sluice.Tokens(250)
		for i := range 6 { // 1000 tokens, and one by the quota
			if d := decide(t, l, "", requests, tokens); d.Allowed != (i < 5) {
				t.Errorf("take %d: %+v", i, d)
			}
		}
		if left := spend(t, l, "", other); left != 5 {
			t.Errorf("%d of another limit, want 5", left)
		}
		if left := spend(t, l, "", requests); left != 6 {
			t.Errorf("%d requests are left, want 6: a refusal takes nothing", left)
		}
	})
}

// A take is known by its id, whichever of the two let it pass.
func TestIDsOfBridgedTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Quotas: map[string]failover.Quota{"": {Limit: sluice.MustParse("1/day"), Bridge: time.Second}}})
		breakOpen(t, l, s, f)
		var d sluice.Decision
		ask := func(id string, dm sluice.Demand) error {
			return l.Decide(context.Background(), &sluice.Take{ID: id, Demands: []sluice.Demand{dm}}, &d)
		}
		for _, id := range []string{"bridged", "by the quota"} {
			for i := range 3 {
				if err := ask(id, ruled("1/s")); err != nil || !d.Allowed || d.Repeated != (i > 0) {
					t.Errorf("%s, time %d: %+v, %v", id, i, d, err)
				}
			}
			other := ruled("1/s")
			other.Key.Entity = "b"
			if err := ask(id, other); !errors.Is(err, sluice.ErrRequestMismatch) {
				t.Errorf("%s, for another take: %v", id, err)
			}
		}
		if err := ask("third", ruled("1/s")); err != nil || d.Allowed {
			t.Errorf("a third: %+v, %v", d, err)
		}
	})
}
