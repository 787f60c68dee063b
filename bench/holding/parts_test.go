package holding

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"

	"github.com/sluice-go/sluice/bench/keys"
)

func TestHistogramIsFineEnough(t *testing.T) {
	for d := time.Duration(1); d < time.Hour; d += d/3 + 1 {
		if u := upper(step(d)); u < d || float64(u) > 1.13*float64(d) {
			t.Fatalf("%d is in a step up to %d", d, u)
		}
		if step(upper(step(d))+1) != step(d)+1 {
			t.Fatalf("the step after that of %d does not follow it", d)
		}
	}
	var h, other histogram
	for range 98 {
		h.add(time.Microsecond)
	}
	other.add(time.Millisecond)
	other.add(time.Second)
	h.merge(&other)
	for share, want := range map[float64]time.Duration{0.5: time.Microsecond, 0.99: time.Millisecond, 1: time.Second} {
		if got := h.quantile(share); got < want || got > want*9/8 {
			t.Errorf("quantile %v: got %s, want %s", share, got, want)
		}
	}
}

func TestJudgeFindsWhatIsOverTheBound(t *testing.T) {
	s := &scenario{rules: perKey(sluice.Per(1, time.Second).WithBurst(2))}
	sample := []watched{{0, "a"}, {0, "b"}}
	// Each process alone is within the bound.
	accounts := []account{
		{Watched: []uint32{2, 9}, Admissions: []admission{{0, 10, 11}, {1, 20, 21}, {1, 30, 31}}},
		{Watched: []uint32{1, 9}, Admissions: []admission{{0, 12, 13}, {1, 40, 41}}},
	}
	j, err := judge(s, sample, accounts, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if j.over != 1 || j.buckets != 2 || j.admissions != 5 || j.saturated != 1 || j.share() != 1 || j.first == "" {
		t.Errorf("got %+v", j)
	}
}

func TestSampleIsOfKeysThatAreAsked(t *testing.T) {
	const n = 500
	sample := three.sample(n, 5)
	asked, from := three.draw(n, 20_000, 1), keys.Uniform(addresses, 20_000, 1)
	marks := three.marks(sample, asked, from)
	seen := make([]int, len(sample))
	for r, rule := range marks {
		for i, m := range rule {
			if m == 0 {
				continue
			}
			if w := sample[m-1]; w.rule != r || w.entity != three.rules[r].of.entity(asked.At(i), from.At(i)) {
				t.Fatalf("take %d, rule %d: marked as %+v", i, r, w)
			}
			seen[m-1]++
		}
	}
	for i, count := range seen {
		if count == 0 {
			t.Errorf("%+v is never asked for", sample[i])
		}
	}
}

func TestAllowance(t *testing.T) {
	for _, test := range []struct {
		limit sluice.Limit
		d     time.Duration
		want  int64
	}{
		{sluice.Per(10, time.Minute).WithBurst(10), 10 * time.Second, 11},
		{sluice.Per(100, time.Second).WithBurst(200), 10 * time.Second, 1200},
	} {
		if got := allowance(test.limit, test.d); got != test.want {
			t.Errorf("%s in %s: got %d, want %d", test.limit, test.d, got, test.want)
		}
	}
}

func TestCommandCount(t *testing.T) {
	name, n, ok := commandCount("cmdstat_evalsha:calls=12,usec=34,usec_per_call=2.83\r\n")
	if name != "evalsha" || n != 12 || !ok {
		t.Errorf("got %q, %d, %t", name, n, ok)
	}
	if _, _, ok := commandCount("# Commandstats\r\n"); ok {
		t.Error("a heading is no command")
	}
}
