package bucket_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// magnitude draws numbers of every size alike.
func magnitude(most int64) *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		size := rapid.IntRange(0, 62).Draw(t, "bits")
		return min(rapid.Int64Range(0, 1<<size).Draw(t, "n"), most)
	})
}

const maxPeriod = int64(5*366*24*time.Hour) / 1000

// tokenLimit draws any valid token bucket, up to the extremes.
func tokenLimit(t *rapid.T) sluice.Limit {
	period := 1 + magnitude(maxPeriod-1).Draw(t, "period")
	most := min(sluice.MaxThousandths, (1<<53-1)/period-1)
	l := sluice.Limit{
		Amount: sluice.Thousandths(1 + magnitude(max(most-1, 0)).Draw(t, "amount")),
		Period: time.Duration(period) * time.Microsecond,
		Burst:  sluice.Thousandths(magnitude(sluice.MaxThousandths).Draw(t, "burst")),
	}
	if err := l.Validate(); err != nil {
		t.Fatalf("%v: %v", l, err)
	}
	return l
}

// clock draws the times of a test: of every size, and sometimes backwards.
type clock struct{ now int64 }

func newClock(t *rapid.T) *clock { return &clock{now: magnitude(1<<51).Draw(t, "start")} }

func (c *clock) tick(t *rapid.T) int64 {
	step := magnitude(1<<50).Draw(t, "step")
	if rapid.IntRange(0, 9).Draw(t, "back") == 0 {
		step = -step
	}
	c.now = min(max(c.now+step, 0), 1<<52)
	return c.now
}

// TestTokensAgreeWithRationals plays random takes, debts, refunds and holds on
// a token bucket and on an exact one: they agree to the millitoken.
func TestTokensAgreeWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := tokenLimit(t)
		p, err := bucket.Compile(l)
		if err != nil {
			t.Fatal(err)
		}
		var s bucket.State
		ref := newRefTokens(l)
		clock := newClock(t)
		var lastID int64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now := clock.tick(t)
			v := p.View(&s, now)
			seen := ref // looking changes nothing
			ref = ref.at(now)
			if v.Now != ref.time || v.Available() != ref.available() || v.Held != ref.held() {
				t.Fatalf("at %d: %d available and %d held at %d; exactly: %d and %d at %d",
					now, v.Available(), v.Held, v.Now, ref.available(), ref.held(), ref.time)
			}
			amount := magnitude(sluice.MaxThousandths).Draw(t, "amount")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				ref = seen
			case 1, 2:
				if amount > v.Available() {
					ref = seen
					break
				}
				p.Take(&s, v, amount)
				ref.used.Add(ref.used, rat(amount))
			case 3: // into debt
				taken := p.Take(&s, v, amount)
				if taken < 0 || taken > amount || taken < amount && v.Used+taken < p.Capacity+sluice.MaxThousandths {
					t.Fatalf("an adjustment of %d took %d", amount, taken)
				}
				ref.used.Add(ref.used, rat(taken))
			case 4:
				refunded := p.Refund(&s, v, amount, now)
				if refunded == 0 && (amount == 0 || v.Used == 0) {
					ref = seen // nothing to write
					break
				}
				ref.used.Sub(ref.used, rat(amount))
				if short := rat(amount - refunded); ref.used.Sign() < 0 {
					// The exact level has a fraction less to give back.
					if d := new(big.Rat).Add(ref.used, short); d.Sign() > 0 || d.Cmp(rat(-1)) <= 0 {
						t.Fatalf("a refund of %d gave %d", amount, refunded)
					}
					ref.used.SetInt64(0)
				} else if short.Sign() != 0 {
					t.Fatalf("a refund of %d gave %d", amount, refunded)
				}
			case 5:
				if len(ref.holds) > 0 && rapid.Bool().Draw(t, "return") {
					h := ref.holds[rapid.IntRange(0, len(ref.holds)-1).Draw(t, "which")]
					spent := min(amount, h.amount)
					if !p.Return(&s, v, sluice.HoldID{Seq: uint64(h.id)}, spent) {
						t.Fatalf("hold %d is not there", h.id)
					}
					ref.holds = slices.DeleteFunc(ref.holds, func(o refHold) bool { return o.id == h.id })
					ref.used.Add(ref.used, rat(spent))
					break
				}
				ttl := magnitude(1<<50).Draw(t, "ttl")
				n := p.Grantable(&s, v, 1, amount)
				if n == 0 {
					ref = seen
					break
				}
				lastID++
				expires := p.Hold(&s, v, bucket.Hold{ID: sluice.HoldID{Seq: uint64(lastID)}, Amount: n, Expires: v.Now + ttl})
				ref.holds = append(ref.holds, refHold{lastID, n, expires})
			}
		}
	})
}

// TestWindowsAgreeWithTheWholeHistory does the same for fixed and sliding
// windows.
func TestWindowsAgreeWithTheWholeHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := sluice.Limit{
			Algorithm: rapid.SampledFrom([]sluice.Algorithm{sluice.FixedWindow, sluice.SlidingWindow}).Draw(t, "algorithm"),
			Amount:    sluice.Thousandths(1 + magnitude(sluice.MaxThousandths-1).Draw(t, "amount")),
			Period:    time.Duration(16+magnitude(maxPeriod-16).Draw(t, "period")) * time.Microsecond,
		}
		p, err := bucket.Compile(l)
		if err != nil {
			t.Fatal(err)
		}
		var s bucket.State
		ref := newRefWindows(l)
		clock := newClock(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now := clock.tick(t)
			if rapid.Bool().Draw(t, "near") { // most steps above leave the window
				now = p.Touched(&s) + rapid.Int64Range(0, 2*l.Period.Microseconds()).Draw(t, "offset")
			}
			v, part := p.View(&s, now), ref.at(now)
			if used := ref.used(part); v.Used != used {
				t.Fatalf("at %d: %d used; the history says %d", now, v.Used, used)
			}
			amount := magnitude(sluice.MaxThousandths).Draw(t, "amount")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
			case 1:
				if amount <= v.Available() {
					p.Take(&s, v, amount)
					ref.take(part, amount)
				}
			case 2:
				ref.take(part, p.Take(&s, v, amount))
			case 3:
				n := p.Refund(&s, v, amount, v.Now)
				if want := min(amount, v.Used); n != want {
					t.Fatalf("a refund of %d with %d used gave %d", amount, v.Used, n)
				}
				if n > 0 {
					ref.refund(part, n)
				}
			}
		}
	})
}

// TestHoldersAgreeWithASet compares a concurrency limit with a plain set of
// leases.
func TestHoldersAgreeWithASet(t *testing.T) {
	type holder struct{ cost, expires int64 }
	rapid.Check(t, func(t *rapid.T) {
		l := sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(int64(rapid.IntRange(1, 20).Draw(t, "amount")))}
		p, err := bucket.Compile(l)
		if err != nil {
			t.Fatal(err)
		}
		var s bucket.State
		set := map[string]holder{}
		latest := int64(0)
		clock := newClock(t)
		ids := rapid.StringMatching("[a-f]")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now := clock.tick(t)
			v := p.View(&s, now)
			now = max(now, latest)
			var used int64
			for _, f := range set {
				if f.expires > now {
					used += f.cost
				}
			}
			if v.Now != now || v.Used != used {
				t.Fatalf("at %d: %d in flight at %d, want %d", now, v.Used, v.Now, used)
			}
			id := ids.Draw(t, "id")
			ttl := magnitude(1<<50).Draw(t, "ttl")
			f, there := set[id]
			there = there && f.expires > now
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
			case 1:
				cost := sluice.Token * rapid.Int64Range(1, 5).Draw(t, "cost")
				if !there && cost <= v.Available() {
					p.Board(&s, v, bucket.Holder{ID: id, Cost: cost, Expires: now + ttl})
					set[id] = holder{cost, now + ttl}
					latest = now
				}
			case 2:
				got := p.Alight(&s, v, id)
				if there && got != f.cost || !there && got != 0 {
					t.Fatalf("alighting %s at %d gave %d, want %+v", id, now, got, f)
				}
				if there {
					delete(set, id)
					latest = now
				}
			case 3:
				p.Extend(&s, v, id, now+ttl)
				if there {
					set[id] = holder{f.cost, now + ttl}
					latest = now
				}
			}
		}
	})
}
