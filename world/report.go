package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Failure is a promise that was not kept.
type Failure struct {
	Check string
	At    time.Duration
	Text  string
}

func (f Failure) String() string { return fmt.Sprintf("%s, at %s: %s", f.Check, f.At, f.Text) }

// Report is what there is to say about a world that was played.
type Report struct {
	Plan     Plan
	Failures []Failure
	Told     int // answers to callers
	Degraded int // of them, those given without the store
	Effects  int // operations of the store
	Hash     string
	lines    []line
}

// report checks everything.
func (w *World) report() *Report {
	slices.SortFunc(w.told, func(a, b *Told) int {
		return cmp.Or(cmp.Compare(a.Return.At, b.Return.At), cmp.Compare(a.Caller, b.Caller))
	})
	r := &Report{Plan: w.plan, Told: len(w.told), Effects: len(w.store.effects)}
	for _, t := range w.told {
		if t.degraded() {
			r.Degraded++
		}
	}
	r.Hash = w.history.hash()
	for _, check := range []func() []Failure{w.bound, w.accounting, w.refusals, w.figures, w.alarms, w.waiting, w.repeats} {
		r.Failures = append(r.Failures, check()...)
	}
	r.Failures = append(r.Failures, w.failures...)
	r.lines = w.history.sorted()
	return r
}

// around is the history near a moment.
func (r *Report) around(at time.Duration) string {
	const before, after = 500 * time.Millisecond, 50 * time.Millisecond
	var b strings.Builder
	for _, l := range r.lines {
		if l.at >= at-before && l.at <= at+after {
			fmt.Fprintln(&b, l)
		}
	}
	return b.String()
}
