package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

func TestQuotasByTier(t *testing.T) {
	for _, c := range []struct {
		tier string
		cost int64
		want int // at once
	}{
		{"enterprise", sluice.Token, 100},
		{"pro", sluice.Token, 50},
		{"free", sluice.Token, 6},     // 6 × 1.5 = 9 of 10
		{"free", 500, 13},             // 13 × 0.75 = 9.75 of 10
		{"", sluice.Token, 2},         // 2 × 2 = 4 of 5
		{"", 2500, 1},                 // all of 5
		{"", 2501, 0},                 // and no more
		{"nobody's", sluice.Token, 2}, // as anonymous
		{"enterprise", 100 * sluice.Token, 1},
		{"enterprise", 100*sluice.Token + 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{})
			breakOpen(t, l, s, f)
			dm := demand("a")
			dm.Cost = sluice.Thousandths(c.cost)
			got := 0
			for ; got <= c.want; got++ {
				d := decide(t, l, c.tier, dm)
				if d.Source != sluice.Degraded {
					t.Fatalf("source %s", d.Source)
				}
				if !d.Allowed {
					if d.RetryAfter <= 0 || d.RetryAfter == sluice.Never || d.Results[0].Fits {
						t.Errorf("refusal %+v", d)
					}
					break
				}
				if d.Granted.Thousandths() != c.cost || d.Results[0].Consumed.Thousandths() != c.cost {
					t.Errorf("granted %s, want %s", d.Granted, sluice.Thousandths(c.cost))
				}
			}
			if got != c.want {
				t.Errorf("%q at cost %s: %d at once, want %d", c.tier, sluice.Thousandths(c.cost), got, c.want)
			}
		})
	}
}

func TestQuotasRefillAtTheFactor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		allowed := 0
		for range 60 * 10 { // 10 a minute at × 1.5 are 66.67 in ten minutes, and 6.67 at once
			if decide(t, l, "free", demand("a")).Allowed {
				allowed++
			}
			time.Sleep(time.Second)
		}
		if allowed != 73 {
			t.Errorf("%d in ten minutes, want 73", allowed)
		}
	})
}

func TestConfiguredQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Quotas: map[string]failover.Quota{
			"gold":  {Limit: sluice.MustParse("7/minute fixed")},
			"lead":  {Limit: sluice.MustParse("7/minute sliding"), Factor: 3500},
			"cheap": {Limit: sluice.MustParse("1/minute"), Factor: 100},
		}})
		breakOpen(t, l, s, f)
		for tier, want := range map[string]int{"gold": 7, "lead": 2, "cheap": 10, "enterprise": 2, "": 2} {
			got := 0
			for range 20 {
				dm := demand("of " + tier)
				dm.Limit = sluice.MustParse("5/hour") // too little to bridge an outage with
				if decide(t, l, tier, dm).Allowed {
					got++
				}
			}
			if got != want {
				t.Errorf("%q: %d, want %d", tier, got, want)
			}
		}
	})
}

// An entity's quota is one, whatever it asks for; tiers and namespaces are
// apart.
func TestOneQuotaForAllLimitsOfAnEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		rpm, tpm := demand("a"), demand("a")
		tpm.Key.Limit, tpm.Cost = "tpm", sluice.Tokens(500)
		other := demand("a")
		other.Key.Resource = "other"
		for i := range 25 {
			if d := decide(t, l, "pro", tpm, rpm); !d.Allowed || d.Results[0].Consumed.Thousandths() != 500*sluice.Token || d.Results[1].Consumed.Thousandths() != sluice.Token {
				t.Fatalf("take %d: %+v", i, d)
			}
			if d := decide(t, l, "pro", other); !d.Allowed {
				t.Fatalf("take %d of another resource: %+v", i, d)
			}
		}
		for _, demands := range [][]sluice.Demand{{tpm, rpm}, {rpm}, {other}} {
			if decide(t, l, "pro", demands...).Allowed {
				t.Errorf("%d limits: a 51st take passed", len(demands))
			}
		}
		elsewhere := demand("a")
		elsewhere.Key.Namespace = "tenant"
		if !decide(t, l, "pro", elsewhere).Allowed {
			t.Error("the quota is shared between namespaces")
		}
	})
}

func TestDegradedTakesAreAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		for range 10 {
			decide(t, l, "pro", demand("user"))
		}
		for i := range 60 {
			d := decide(t, l, "pro", demand("user"), demand("ip"))
			if want := i < 40; d.Allowed != want {
				t.Fatalf("take %d: allowed %t", i, d.Allowed)
			}
		}
		d := decide(t, l, "pro", demand("user"), demand("ip"))
		if d.Results[0].Fits || !d.Results[1].Fits || d.Decider != 0 {
			t.Errorf("%+v", d)
		}
		if left := spend(t, l, "pro", demand("ip")); left != 10 {
			t.Errorf("the ip has %d left, want 10: refusals must take nothing", left)
		}
	})
}

func TestOnUnavailable(t *testing.T) {
	deny, allow, degrade, crit := demand("a"), demand("a"), demand("a"), demand("a")
	deny.OnUnavailable, deny.Key.Limit = sluice.Deny, "deny"
	allow.OnUnavailable, allow.Key.Limit = sluice.Allow, "allow"
	degrade.Key.Limit = "degrade"
	crit.Critical, crit.Key.Limit = true, "critical"
	critAllow := allow
	critAllow.Critical = true
	shadow := deny
	shadow.Shadow = true
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		for name, c := range map[string]struct {
			demands []sluice.Demand
			allowed bool
			decider int
		}{
			"deny":                     {[]sluice.Demand{deny}, false, 0},
			"allow":                    {[]sluice.Demand{allow}, true, 0},
			"degrade":                  {[]sluice.Demand{degrade}, true, 0},
			"critical":                 {[]sluice.Demand{crit}, false, 0},
			"critical and allow":       {[]sluice.Demand{critAllow}, true, 0},
			"one of three denies":      {[]sluice.Demand{allow, degrade, deny}, false, 2},
			"a shadow that would deny": {[]sluice.Demand{shadow, allow}, true, 1},
			"allow beside degrade":     {[]sluice.Demand{allow, degrade}, true, 0},
		} {
			d := decide(t, l, "enterprise", c.demands...)
			if d.Allowed != c.allowed || d.Decider != c.decider || d.Source != sluice.Degraded || len(d.Results) != len(c.demands) {
				t.Errorf("%s: %+v", name, d)
			}
			if wait := s.Stats().NextProbe; !d.Allowed && d.RetryAfter != wait {
				t.Errorf("%s: retry after %s, but the next probe is in %s", name, d.RetryAfter, wait)
			}
		}
		if left := spend(t, l, "enterprise", degrade); left != 98 {
			t.Errorf("%d left, want 98: denied takes consume nothing", left)
		}
		time.Sleep(s.Stats().NextProbe - time.Millisecond)
		if d := decide(t, l, "", deny); d.RetryAfter != time.Second {
			t.Errorf("retry after %s, want a second at least", d.RetryAfter)
		}
	})
}

func TestPeekUpToAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		ctx := context.Background()
		for range 200 {
			var d sluice.Decision
			if err := l.Decide(ctx, &sluice.Take{Demands: []sluice.Demand{demand("a")}, Tier: "free", Peek: true}, &d); err != nil || !d.Allowed || d.Results[0].Consumed.Thousandths() != 0 {
				t.Fatalf("peek: %+v, %v", d, err)
			}
		}
		dm := demand("a")
		dm.Cost = sluice.Tokens(50)
		allow := dm
		allow.Key.Limit, allow.OnUnavailable = "other", sluice.Allow
		var d sluice.Decision
		if err := l.Decide(ctx, &sluice.Take{Demands: []sluice.Demand{allow, dm}, Tier: "free", UpTo: true}, &d); err != nil {
			t.Fatal(err)
		}
		if d.Granted.Thousandths() != 6*sluice.Token || d.Results[1].Consumed.Thousandths() != 6*sluice.Token { // 6.67 at the factor of 1.5
			t.Errorf("up to 50: %+v, want 6", d)
		}
		// The wait is for a token of the quota, 9 s each.
		start := time.Now()
		dm.Cost = sluice.Amount{}
		w, err := l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{dm}, Tier: "free"})
		if err != nil || w.Source != sluice.Degraded {
			t.Fatalf("wait: %+v, %v", w, err)
		}
		if took := time.Since(start); took < 3*time.Second || took > 9*time.Second {
			t.Errorf("waited %s", took)
		}
	})
}

func TestWaitersOutlastAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		time.AfterFunc(30*time.Second, func() { f.set(none) })
		d, err := l.Wait(context.Background(), sluice.Take{Demands: []sluice.Demand{critical("a")}})
		if err != nil || !d.Allowed || d.Source != sluice.FromStore {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestRepeatedRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		ctx := context.Background()
		var d sluice.Decision
		for i := range 3 {
			if err := l.Decide(ctx, &sluice.Take{ID: "once", Demands: []sluice.Demand{demand("a")}, Tier: "pro"}, &d); err != nil {
				t.Fatal(err)
			}
			if !d.Allowed || d.Repeated != (i > 0) {
				t.Errorf("time %d: %+v", i, d)
			}
		}
		if left := spend(t, l, "pro", demand("a")); left != 49 {
			t.Errorf("%d left, want 49: one id, one charge", left)
		}
		if err := l.Decide(ctx, &sluice.Take{ID: "once", Demands: []sluice.Demand{demand("b")}, Tier: "pro"}, &d); !errors.Is(err, sluice.ErrRequestMismatch) {
			t.Errorf("the same id for another take: %v", err)
		}
	})
}

// While the store comes and goes, no entity is admitted more than its quota
// in any interval by local decisions, and nobody gets an error.
func TestDegradedAdmissionsStayWithinTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		l, s, f := open(t, failover.Config{})
		limits := map[string]struct{ burst, perMinute float64 }{
			"enterprise": {100, 100}, "pro": {50, 50}, "free": {10 / 1.5, 10 / 1.5}, "": {2.5, 2.5},
		}
		type admission struct {
			at   time.Duration
			cost float64
		}
		history := map[string][]admission{}
		start := time.Now()
		tiers := []string{"enterprise", "pro", "free", ""}
		for range 20_000 {
			switch r.IntN(200) {
			case 0:
				f.set(fault(r.IntN(6)))
			case 1:
				time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
			}
			time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
			n := r.IntN(4)
			tier := tiers[n]
			demands := []sluice.Demand{demand(fmt.Sprint(n))}
			demands[0].Cost = sluice.Thousandths(1 + r.Int64N(3000))
			if r.IntN(2) == 0 {
				more := demands[0]
				more.Key.Limit = "more"
				more.Cost = sluice.Thousandths(more.Cost.Thousandths() + 1000)
				demands = append(demands, more)
			}
			d := decide(t, l, tier, demands...)
			if d.Allowed && d.Source >= sluice.Degraded {
				history[tier] = append(history[tier], admission{time.Since(start), float64(demands[0].Cost.Thousandths()) / 1000})
			}
		}
		for tier, admissions := range history {
			l := limits[tier]
			for i := range admissions {
				sum := 0.0
				for j := i; j < len(admissions) && j < i+400; j++ {
					sum += admissions[j].cost
					over := (admissions[j].at - admissions[i].at).Minutes()
					if bound := l.burst + l.perMinute*over + 1e-6; sum > bound {
						t.Fatalf("seed %d: %q was admitted %.3f in %.3f min, want at most %.3f", seed, tier, sum, over, bound)
					}
				}
			}
			if len(admissions) < 20 {
				t.Errorf("seed %d: only %d degraded admissions of %q", seed, len(admissions), tier)
			}
		}
		if st := s.Stats(); st.Unknown == 0 || st.Entered[failover.Open] == 0 {
			t.Errorf("seed %d: nothing happened: %+v", seed, st)
		}
	})
}

func TestManyCallersThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		var callers sync.WaitGroup
		var stop atomic.Bool
		var bySource [5]atomic.Int64
		for i := range 32 {
			callers.Go(func() {
				for n := 0; !stop.Load(); n++ {
					d := decide(t, l, "pro", demand(fmt.Sprint(i, "-", n%50)))
					bySource[d.Source].Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		for _, fault := range []fault{none, hangs, none, refuses, cuts, none} {
			f.set(fault)
			time.Sleep(20 * time.Second)
		}
		time.Sleep(3 * time.Minute)
		stop.Store(true)
		callers.Wait()
		st := s.Stats()
		if st.State != failover.Normal || st.Recoveries == 0 || st.Unknown == 0 {
			t.Errorf("stats %+v", st)
		}
		decided := st.Degraded["pro"].Allowed + st.Degraded["pro"].Refused
		if want := bySource[sluice.Degraded].Load() + bySource[sluice.Unknown].Load(); decided != want || st.Unknown != bySource[sluice.Unknown].Load() {
			t.Errorf("%d local decisions counted, %d seen", decided, want)
		}
	})
}
