package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Event is something that happened to one bucket at some moment from Call to
// Return, both included, in microseconds of the store's time.
type Event struct {
	Call, Return int64

	// Amount is what was consumed, Result.Consumed, or, negative, what came
	// back of a refund: Result.Returned.
	Amount int64
}

// History is what happened to one bucket, by whomever and in any order. The
// events of several goroutines or processes are recorded apart and appended.
type History struct {
	Events []Event
}

// Add records an event.
func (h *History) Add(call, ret int64, amount int64) {
	h.Events = append(h.Events, Event{call, ret, amount})
}

// Interval is a stretch of time, both ends included, with what certainly
// passed in it and what may pass.
type Interval struct {
	Start, End int64 // microseconds
	Net        int64 // consumed less refunded
	Bound      int64
}

func (i Interval) String() string {
	return fmt.Sprintf("%s from %d to %d (%s), where %s may pass",
		sluice.Thousandths(i.Net), i.Start, i.End, time.Duration(i.End-i.Start)*time.Microsecond, sluice.Thousandths(i.Bound))
}

// Report is what a history amounts to under a limit.
type Report struct {
	// Worst is the interval that is furthest above the bound, or that comes
	// closest to it. For concurrency it is the moment with most in flight.
	Worst Interval

	// Whole is the whole history as one interval: from the first call to the
	// last return. For fixed windows its bound is that of all windows in it,
	// for sliding windows of as many as cover it, and for concurrency it is
	// the same as Worst.
	Whole Interval
}

// Used is which share of the bound the whole history used: 1 is all that may
// pass.
func (r *Report) Used() float64 {
	if r.Whole.Bound == 0 {
		return 0
	}
	return float64(r.Whole.Net) / float64(r.Whole.Bound)
}

// Err is a *[BoundError] if the worst interval is over the bound.
func (r *Report) Err() error {
	if r.Worst.Net > r.Worst.Bound {
		return &BoundError{r.Worst}
	}
	return nil
}

// BoundError says which interval broke the bound.
type BoundError struct{ Interval Interval }

func (e *BoundError) Error() string { return "over the bound: " + e.Interval.String() }

// Check looks for an interval in which more passed than l lets pass, and
// reports the worst one as a *[BoundError].
//
// The bounds are, for any interval of length T: burst + rate × T for a token
// bucket; the amount for a sliding window if T is shorter than its period;
// the amount for each aligned fixed window; and for concurrency the amount in
// flight at any moment, where releases and expiries are events with negative
// amounts.
//
// Nothing is reported that could have another explanation: an admission counts
// inside an interval only if its call and its return both lie inside it, and a
// refund counts if any of it does.
//
// It takes n log n time and some 100 bytes for each event.
func (h *History) Check(l sluice.Limit) error {
	r, err := h.Report(l)
	if err != nil {
		return err
	}
	return r.Err()
}

// Report measures a history against a limit.
func (h *History) Report(l sluice.Limit) (Report, error) {
	spec, err := bucket.Compile(l)
	if err != nil {
		return Report{}, err
	}
	if len(h.Events) == 0 {
		return Report{}, nil
	}
	whole := Interval{Start: h.Events[0].Call, End: h.Events[0].Return}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Return < e.Call {
			return Report{}, fmt.Errorf("event %d: it returned at %d, before its call at %d", i, e.Return, e.Call)
		}
		whole.Start, whole.End = min(whole.Start, e.Call), max(whole.End, e.Return)
		whole.Net += e.Amount
	}
	switch l.Algorithm {
	case sluice.FixedWindow:
		return h.fixed(spec, whole)
	case sluice.Concurrency:
		return h.inFlight(l, whole)
	default:
		return h.sweep(l, whole)
	}
}

// byReturn is the order in which events are certain to have happened: an
// admission once it has returned, a refund as soon as it was called.
func (h *History) byReturn() []Event {
	events := slices.Clone(h.Events)
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.counts(), b.counts()) })
	return events
}

func (e *Event) counts() int64 {
	if e.Amount < 0 {
		return e.Call
	}
	return e.Return
}

// fixed adds up each aligned window.
func (h *History) fixed(spec *bucket.Spec, whole Interval) (Report, error) {
	bound := spec.Limit.Amount.Thousandths()
	windows := map[int64]*Interval{}
	for t := whole.Start; t <= whole.End; {
		start, end := spec.Window(t)
		whole.Bound += bound
		t = end
		if len(windows) > 10_000_000 {
			return Report{}, errors.New("the history spans more than ten million windows")
		}
		windows[start] = &Interval{Start: start, End: end - 1, Bound: bound}
	}
	for i := range h.Events {
		e := &h.Events[i]
		start, end := spec.Window(e.Call)
		if e.Amount > 0 {
			if e.Return < end {
				windows[start].Net += e.Amount
			}
			continue
		}
		for ; start <= e.Return; start, end = spec.Window(end) {
			windows[start].Net += e.Amount
		}
	}
	r := Report{Whole: whole}
	first := true
	for _, w := range windows {
		if first || w.Net > r.Worst.Net || w.Net == r.Worst.Net && w.Start < r.Worst.Start {
			r.Worst, first = *w, false
		}
	}
	return r, nil
}

// inFlight adds up what is in flight at each moment.
func (h *History) inFlight(l sluice.Limit, whole Interval) (Report, error) {
	worst := Interval{Start: whole.Start, End: whole.Start, Bound: l.Amount.Thousandths()}
	net := int64(0)
	events := h.byReturn()
	for i := range events {
		at := events[i].counts()
		net += events[i].Amount
		if last := i == len(events)-1 || events[i+1].counts() != at; last && net > worst.Net {
			worst.Start, worst.End, worst.Net = at, at, net
		}
	}
	return Report{Worst: worst, Whole: worst}, nil
}
