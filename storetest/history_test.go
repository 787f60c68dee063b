package storetest

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func TestHistoryByHand(t *testing.T) {
	const second = int64(1_000_000)
	at := func(t int64, tokens int64) Event { return Event{t, t, tokens * sluice.Token} }
	for _, test := range []struct {
		name   string
		limit  string
		events []Event
		worst  *Interval // nil: within the bound
	}{
		{"a burst and what comes back", "10/s burst 20", []Event{at(0, 20), at(second, 10), at(2*second, 10)}, nil},
		{"a token too early by a microsecond", "10/s burst 20", []Event{at(0, 20), at(second-1, 10)},
			&Interval{0, second - 1, 30_000, 29_999}},
		{"twice the burst after a pause", "10/s burst 20", []Event{at(0, 5), at(100*second, 20), at(100*second+5, 21), at(200*second, 1)},
			&Interval{100 * second, 100*second + 5, 41_000, 20_000}},
		{"more than the burst at once", "10/s burst 20", []Event{at(7, 21)}, &Interval{7, 7, 21_000, 20_000}},
		{"it may have been before the interval", "10/s burst 20", []Event{{0, 5 * second, 20_000}, at(5*second, 20)}, nil},
		{"a refund makes room", "10/s burst 20", []Event{at(0, 20), at(1, -20), at(2, 20)}, nil},
		{"a refund that may have come in time", "10/s burst 20", []Event{at(0, 20), {1, 9, -20_000}, at(2, 20)}, nil},
		{"a refund that came too late", "10/s burst 20", []Event{at(0, 20), at(3, -20), at(2, 20)}, &Interval{0, 2, 40_000, 20_000}},
		{"a refund before it all", "10/s burst 20", []Event{at(0, 20), at(1, -20), at(2, 21)}, &Interval{2, 2, 21_000, 20_000}},
		{"sliding: a whole window apart", "10/s sliding", []Event{at(0, 10), at(second, 10)}, nil},
		{"sliding: a microsecond less", "10/s sliding", []Event{at(0, 10), at(second-1, 10)}, &Interval{0, second - 1, 20_000, 10_000}},
		{"sliding: a call from long ago", "10/s sliding", []Event{{0, 2 * second, 10_000}, at(2*second, 10)}, nil},
		{"fixed: around the boundary", "10/s fixed", []Event{at(second-1, 10), at(second, 10)}, nil},
		{"fixed: twice in a window", "10/s fixed", []Event{at(second, 10), at(2*second-1, 1)}, &Interval{second, 2*second - 1, 11_000, 10_000}},
		{"fixed: it may have been in the window before", "10/s fixed", []Event{{second - 1, second, 10_000}, at(second, 10)}, nil},
		{"fixed: given back", "10/s fixed", []Event{at(1, 10), at(2, -4), at(3, 4)}, nil},
		{"concurrency: two of two", "2 concurrent", []Event{at(0, 1), at(1, 1), at(2, -1), at(2, 1)}, nil},
		{"concurrency: three of two", "2 concurrent", []Event{at(0, 1), at(1, 1), at(2, 1), at(3, -1)}, &Interval{2, 2, 3_000, 2_000}},
		{"concurrency: not yet certain", "2 concurrent", []Event{at(0, 1), at(1, 1), {2, 4, 1000}, at(3, -1)}, nil},
	} {
		h := History{test.events}
		err := h.Check(sluice.MustParse(test.limit))
		var over *BoundError
		switch {
		case test.worst == nil:
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case !errors.As(err, &over):
			t.Errorf("%s: got %v, want %v", test.name, err, test.worst)
		case over.Interval != *test.worst:
			t.Errorf("%s: got %v, want %v", test.name, over.Interval, test.worst)
		}
	}
}

func TestHistoryReport(t *testing.T) {
	h := History{}
	h.Add(0, 0, 20_000)
	h.Add(500_000, 1_000_000, 9_000)
	r, err := h.Report(sluice.MustParse("10/s burst 20"))
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if want := (Interval{0, 1_000_000, 29_000, 30_000}); r.Whole != want {
		t.Errorf("whole: got %v, want %v", r.Whole, want)
	}
	if used := r.Used(); used < 0.966 || used > 0.967 {
		t.Errorf("used: %v", used)
	}
	if want := (Interval{0, 0, 20_000, 20_000}); r.Worst != want {
		t.Errorf("worst: got %v, want %v", r.Worst, want)
	}
}

func TestHistoryRefusesNonsense(t *testing.T) {
	h := History{[]Event{{5, 4, 1}}}
	if h.Check(sluice.MustParse("10/s")) == nil {
		t.Error("an event that ends before it starts was accepted")
	}
	h = History{[]Event{{0, 1, sluice.MaxThousandths}, {1 << 50, 1 << 51, 1}}}
	if h.Check(sluice.Limit{Amount: sluice.Thousandths(7), Period: 1_000_003 * time.Microsecond}) == nil {
		t.Error("sums that overflow were accepted")
	}
	if h.Check(sluice.Limit{}) == nil {
		t.Error("a limit that is not valid was accepted")
	}
}

// unit is the grain of the random histories, in microseconds.
const unit = 125

// TestHistoryAgreesWithBruteForce compares the checker with one that tries
// every interval.
func TestHistoryAgreesWithBruteForce(t *testing.T) {
	limits := []sluice.Limit{
		sluice.MustParse("10/s burst 20"),
		{Amount: sluice.Thousandths(7000), Period: 3 * unit * time.Microsecond, Burst: sluice.Thousandths(5000)},
		{Amount: sluice.Thousandths(3000), Period: 7 * unit * time.Microsecond},
		sluice.MustParse("9/1ms sliding"),
		sluice.MustParse("9/1ms fixed"),
		sluice.MustParse("9 concurrent"),
	}
	const rounds = 400
	over := make([]int, len(limits))
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7))
		var h History
		for range 1 + r.IntN(12) {
			call := r.Int64N(40)
			amount := (1 + r.Int64N(5)) * sluice.Token
			if r.IntN(4) == 0 {
				amount = -amount
			}
			h.Add(call*unit, (call+r.Int64N(1+r.Int64N(12)))*unit, amount)
		}
		for i, l := range limits {
			got, err := h.Report(l)
			if err != nil {
				t.Fatal(err)
			}
			want := bruteForce(&h, l)
			if excess(got.Worst, l) != excess(want, l) {
				t.Fatalf("seed %d, %s, %v:\n got %v\nwant %v", seed, l, h.Events, got.Worst, want)
			}
			if got.Err() != nil {
				over[i]++
			}
		}
	}
	if slices.Contains(over, 0) || slices.Contains(over, rounds) {
		t.Errorf("the histories are one-sided: %v of %d over the bound", over, rounds)
	}
}

// excess is how far i is over the bound, as a whole number.
func excess(i Interval, l sluice.Limit) int64 {
	if l.Algorithm != sluice.TokenBucket {
		return (i.Net - i.Bound)
	}
	amount, period := l.Rate()
	return (i.Net-l.Capacity().Thousandths())*period - (i.End-i.Start)*amount
}

func bruteForce(h *History, l sluice.Limit) Interval {
	first, last := h.Events[0].Call, h.Events[0].Return
	for _, ev := range h.Events {
		first, last = min(first, ev.Call), max(last, ev.Return)
	}
	worst, found := Interval{}, false
	try := func(i Interval, net int64) {
		i.Net, i.Bound = net, l.Amount.Thousandths()
		if !found || excess(i, l) > excess(worst, l) {
			worst, found = i, true
		}
	}
	for s := int64(0); s <= last; s += unit {
		for e := s; e <= last; e += unit {
			i := Interval{Start: s, End: e}
			net, admitted := h.certain(s, e)
			switch l.Algorithm {
			case sluice.TokenBucket:
				if admitted {
					try(i, net)
				}
			case sluice.SlidingWindow:
				if admitted && e-s < 1000 {
					try(i, net)
				}
			case sluice.FixedWindow:
				if s%1000 == 0 && e == s && s+1000 > first {
					net, _ := h.certain(s, s+999)
					try(i, net)
				}
			case sluice.Concurrency:
				net, _ := h.certain(math.MinInt64, e)
				try(i, max(net, 0))
			}
		}
	}
	return worst
}

// certain is what passed from s to e for sure, and whether anything did.
func (h *History) certain(s, e int64) (net int64, admitted bool) {
	for _, ev := range h.Events {
		switch {
		case ev.Amount > 0 && s <= ev.Call && ev.Return <= e:
			net += ev.Amount
			admitted = true
		case ev.Amount < 0 && s <= ev.Return && ev.Call <= e:
			net += ev.Amount
		}
	}
	return net, admitted
}

func BenchmarkHistory(b *testing.B) {
	const events = 1_000_000
	var h History
	r := rand.New(rand.NewPCG(1, 2))
	for i := range int64(events) {
		h.Add(i*10, i*10+r.Int64N(2000), sluice.Token)
	}
	for _, l := range []sluice.Limit{sluice.MustParse("100000/s"), sluice.MustParse("100000/s sliding"), sluice.MustParse("100000/s fixed")} {
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := h.Report(l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
