package storetest

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-go/sluice"
)

// sweep finds the worst of all intervals [s, e] for limits that bound any
// interval: the one with the greatest
//
//	net(s, e) - burst - rate × (e - s)
//
// where net counts the admissions with s ≤ call and return ≤ e, and the
// refunds with s ≤ return and call ≤ e. So s only needs to be the call of an
// admission and e the return of one.
//
// It moves e forward. For every s it keeps net(s, e) + rate × s, of which the
// greatest decides. An event adds its amount to all s up to its own place:
// its call, or if it is a refund its return. That makes net(s, e) the sum of
// what stands at s and after it, which a tree of sums can maximize: the best
// s of a node is the best of its right half, or the best of its left half
// with the right half's sum added.
//
// Everything is multiplied by the rate's period, to stay with whole numbers.
func (h *History) sweep(l sluice.Limit, whole Interval) (Report, error) {
	amount, period, length := int64(0), int64(1), int64(0)
	if l.Algorithm == sluice.TokenBucket {
		amount, period = l.Rate()
	} else {
		length = l.Period.Microseconds() // an interval is shorter
	}
	if err := h.inRange(amount, period, whole); err != nil {
		return Report{}, err
	}
	bound := func(start, end int64) int64 {
		if length == 0 {
			return l.Capacity().Thousandths() + ((end - start) * amount / period)
		}
		return l.Amount.Thousandths() * ((end-start)/length + 1)
	}
	whole.Bound = bound(whole.Start, whole.End)

	tree := newSumTree(h.places())
	oldest := 0 // the first place that is not too long ago for a sliding window
	worst, least := Interval{}, int64(math.MinInt64)
	events := h.byReturn()
	for i := range events {
		ev := &events[i]
		end := ev.counts()
		if ev.Amount < 0 {
			tree.add(ev.Return, ev.Amount*period, none)
		} else if length == 0 || ev.Call > end-length {
			tree.add(ev.Call, ev.Amount*period, (ev.Call-whole.Start)*amount)
		}
		if i+1 < len(events) && events[i+1].counts() == end {
			continue // all that happens at one moment counts together
		}
		for length != 0 && oldest < len(tree.places) && tree.places[oldest] <= end-length {
			tree.shut(oldest)
			oldest++
		}
		value, ok := tree.best()
		if !ok {
			continue
		}
		// Less burst × period, which is the same for all.
		if over := value - (end-whole.Start)*amount; over > least {
			start := tree.where()
			least = over
			worst = Interval{
				Start: start, End: end, Bound: bound(start, end),
				Net: ((value - (start-whole.Start)*amount) / period),
			}
		}
	}
	return Report{Worst: worst, Whole: whole}, nil
}

// places are the times that tell intervals apart by where they start.
func (h *History) places() []int64 {
	places := make([]int64, len(h.Events))
	for i := range h.Events {
		places[i] = h.Events[i].Call
		if h.Events[i].Amount < 0 {
			places[i] = h.Events[i].Return
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// inRange makes sure that no sum overflows.
func (h *History) inRange(amount, period int64, whole Interval) error {
	total := uint64(0)
	for i := range h.Events {
		total += uint64(max(h.Events[i].Amount, -h.Events[i].Amount))
	}
	hi, lo := bits.Mul64(total, uint64(period))
	hi2, lo2 := bits.Mul64(uint64(whole.End-whole.Start), uint64(amount))
	if hi|hi2 != 0 || lo > 1<<61 || lo2 > 1<<61 {
		return errors.New("the history is too long to be checked exactly under this limit: check it in parts")
	}
	return nil
}

// sumTree keeps a value at each of some places, and finds the place from
// which on they add up to most.
type sumTree struct {
	places []int64
	nodes  []sumNode // the root is 1, the children of n are 2n and 2n+1
	leaves int
}

type sumNode struct {
	sum  int64 // of everything below
	best int64 // the greatest head start plus sum, from a place below on
}

// none is the best of a node without an open place: so low that adding any
// sum to it stays lower than what is real.
const none = math.MinInt64 / 2

func newSumTree(places []int64) *sumTree {
	leaves := 1
	for leaves < len(places) {
		leaves *= 2
	}
	t := &sumTree{places: places, nodes: make([]sumNode, 2*leaves), leaves: leaves}
	for i := range t.nodes {
		t.nodes[i].best = none
	}
	return t
}

// add adds an amount at a place, and lets sums start there with a head start
// unless that is none.
func (t *sumTree) add(place, amount, head int64) {
	i, _ := slices.BinarySearch(t.places, place)
	n := t.leaves + i
	leaf := &t.nodes[n]
	leaf.sum += amount
	switch {
	case leaf.best != none:
		leaf.best += amount
	case head != none:
		leaf.best = head + leaf.sum
	}
	t.update(n)
}

// shut lets no sum start at the i-th place any more.
func (t *sumTree) shut(i int) {
	n := t.leaves + i
	if t.nodes[n].best != none {
		t.nodes[n].best = none
		t.update(n)
	}
}

func (t *sumTree) update(n int) {
	for n /= 2; n > 0; n /= 2 {
		left, right := &t.nodes[2*n], &t.nodes[2*n+1]
		t.nodes[n] = sumNode{left.sum + right.sum, max(right.best, from(left, right))}
	}
}

// from is the best that starts in the left node and goes on through the right.
func from(left, right *sumNode) int64 {
	if left.best == none {
		return none
	}
	return left.best + right.sum
}

// best is the greatest sum, if sums may start anywhere.
func (t *sumTree) best() (int64, bool) {
	return t.nodes[1].best, t.nodes[1].best != none
}

// where is the place that the best sum starts at.
func (t *sumTree) where() int64 {
	n := 1
	for n < t.leaves {
		left, right := &t.nodes[2*n], &t.nodes[2*n+1]
		if from(left, right) > right.best {
			n = 2 * n
		} else {
			n = 2*n + 1
		}
	}
	return t.places[n-t.leaves]
}
