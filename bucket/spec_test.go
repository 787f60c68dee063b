package bucket_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// seeded is a source of randomness that a failing test names.
func seeded(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with -seed=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// epoch is where the tables of steps start: a midnight, so that windows of
// every length are aligned to it.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func compile(t testing.TB, l sluice.Limit) *bucket.Spec {
	t.Helper()
	spec, err := bucket.Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func parse(t testing.TB, s string) *bucket.Spec {
	t.Helper()
	l, err := sluice.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, l)
}

// take takes cost if it fits, as a store does.
func take(p *bucket.Spec, s *bucket.State, now, cost int64) (bucket.View, bool) {
	v := p.View(s, now)
	if cost > v.Available() {
		return v, false
	}
	p.Take(s, v, cost)
	return v, true
}

// copyOf is a state that shares nothing with s.
func copyOf(s *bucket.State) bucket.State {
	c := *s
	if s.Ext != nil {
		x := *s.Ext
		x.Counts = append([]int64(nil), x.Counts...)
		x.Holders = append([]bucket.Holder(nil), x.Holders...)
		x.Holds = append([]bucket.Hold(nil), x.Holds...)
		c.Ext = &x
	}
	return c
}

func TestCompileRefusesWhatIsNotValid(t *testing.T) {
	for _, l := range []sluice.Limit{
		{},
		{Amount: sluice.Tokens(1)},
		{Algorithm: sluice.FixedWindow, Amount: sluice.Tokens(1), Calendar: sluice.CalendarDay, Zone: "Nowhere/Land"},
	} {
		if _, err := bucket.Compile(l); err == nil {
			t.Errorf("%+v compiled", l)
		}
	}
}

// step is one line of a table: at t a take of cost is tried; if it passes,
// remaining is left, and if not it could pass after retry. Costs and
// remainders are in tokens.
type step struct {
	t         time.Duration
	cost      float64
	ok        bool
	remaining float64
	retry     time.Duration
}

const (
	ms    = time.Millisecond
	never = sluice.Never
)

func milli(tokens float64) int64 { return int64(tokens*1000 + 0.5) }

// run plays the steps on one bucket.
func run(t *testing.T, limit string, steps []step) {
	t.Helper()
	p := parse(t, limit)
	var s bucket.State
	for i, step := range steps {
		now := epoch + step.t.Microseconds()
		v, ok := take(p, &s, now, milli(step.cost))
		if ok != step.ok {
			t.Fatalf("%s, step %d at %s: a take of %v gave %v, want %v (%+v)", limit, i, step.t, step.cost, ok, step.ok, v)
		}
		retry := time.Duration(bucket.Never)
		if in := p.RetryIn(&s, v, milli(step.cost)); in != bucket.Never {
			retry = time.Duration(in) * time.Microsecond
		}
		if ok {
			retry = 0
			v = p.View(&s, now)
		}
		if got, want := v.Available(), milli(step.remaining); got != want {
			t.Fatalf("%s, step %d at %s: %d millitokens remain, want %d", limit, i, step.t, got, want)
		}
		if retry != step.retry {
			t.Fatalf("%s, step %d at %s: retry in %s, want %s", limit, i, step.t, retry, step.retry)
		}
	}
}
