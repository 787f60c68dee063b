package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/schedule"

	"github.com/sluice-go/sluice/bench/report"
)

// side is one way to assign events.
type side struct {
	name    string
	callers int
	batch   int
	assign  func(events []string, at func() time.Time) error
	fill    func(at time.Time, n int) error // puts events there, not to be measured
}

// names makes event names that nobody used before.
var names atomic.Int64

func (b *both) sides() []side {
	ctx := context.Background()
	fill := func(at time.Time, n int) error {
		requests := make([]schedule.Request, n)
		for i, e := range newNames(n) {
			requests[i] = schedule.Request{Event: e, At: at}
		}
		return failed(b.scheduler.AssignBatch(ctx, requests))
	}
	return []side{
		{"Sluice in batches", 2, 0, func(events []string, at func() time.Time) error {
			requests := make([]schedule.Request, len(events))
			for i, e := range events {
				requests[i] = schedule.Request{Event: e, At: at()}
			}
			return failed(b.scheduler.AssignBatch(ctx, requests))
		}, fill},
		{"Sluice one by one", 0, 1, func(events []string, at func() time.Time) error {
			_, err := b.scheduler.Assign(ctx, schedule.Request{Event: events[0], At: at()})
			return err
		}, fill},
		{"the sequence", 0, 1, func(events []string, at func() time.Time) error {
			return b.document.assign(ctx, events[0], at())
		}, b.document.fill},
	}
}

func failed(results []schedule.Result, err error) error {
	for i := range results {
		err = errors.Join(err, results[i].Err)
	}
	return err
}

// aims tells where to aim: each round has a week of its own, so that it has
// only its own events to pass.
func (b *both) aims(spread bool) func() time.Time {
	b.aimed++
	week := time.Now().Truncate(4*time.Second).AddDate(0, 0, 7*b.aimed)
	if !spread {
		return func() time.Time { return week }
	}
	return func() time.Time { return week.Add(rand.N(time.Hour)) }
}

// measure is how many events a second the side assigns.
func (s *side) measure(o Options, at func() time.Time, there int) (float64, error) {
	if there > 0 {
		if err := s.fill(at(), there); err != nil {
			return 0, err
		}
	}
	callers, batch := o.Callers, o.Batch
	if s.callers != 0 {
		callers = s.callers // each has as many events at a time as many callers
	}
	if s.batch != 0 {
		batch = s.batch
	}
	errs := make([]error, callers)
	run := func(slot time.Duration) float64 {
		var count atomic.Int64
		began := time.Now()
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() {
				for time.Since(began) < slot && errs[c] == nil {
					errs[c] = s.assign(newNames(batch), at)
					count.Add(int64(batch))
				}
			})
		}
		group.Wait()
		return float64(count.Load()) / time.Since(began).Seconds()
	}
	run(o.Slot / 4) // so that connections and the first windows are there
	return run(o.Slot), errors.Join(errs...)
}

func newNames(n int) []string {
	events := make([]string, n)
	for i := range events {
		events[i] = fmt.Sprintf("event-%010d", names.Add(1))
	}
	return events
}

// longRun is one run of many events aimed at one instant.
type longRun struct {
	events int
	took   time.Duration
	tenths []time.Duration // per event, the median of the batches of each tenth
	heap   []uint64        // after each tenth
	single [2]time.Duration
}

// singles is how many events are assigned one by one before and after.
const singles = 200

// long assigns many events, in batches, and times each tenth of them; and a
// few one by one, before and after.
func (b *both) long(o Options) (*longRun, error) {
	at := b.aims(false)
	sides := b.sides()
	run := &longRun{events: o.Events}
	one := func(n int) (time.Duration, error) {
		var each []float64
		for range n {
			start := time.Now()
			if err := sides[1].assign(newNames(1), at); err != nil {
				return 0, err
			}
			each = append(each, float64(time.Since(start)))
		}
		slices.Sort(each)
		return time.Duration(each[n/4]), nil // the disk is what makes the others slower
	}
	var err error
	if _, err = one(10); err != nil { // warm up
		return nil, err
	}
	if run.single[0], err = one(singles); err != nil {
		return nil, err
	}
	for tenth := range 10 {
		fmt.Fprintf(o.Log, "slots: long run, %d of 10\n", tenth+1)
		began := time.Now()
		var each []float64
		for done := 0; done < o.Events/10; done += o.Batch {
			n := min(o.Batch, o.Events/10-done)
			start := time.Now()
			if err := sides[0].assign(newNames(n), at); err != nil {
				return nil, err
			}
			each = append(each, float64(time.Since(start))/float64(n))
		}
		run.tenths = append(run.tenths, time.Duration(median(each)))
		run.took += time.Since(began)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		run.heap = append(run.heap, m.HeapAlloc)
	}
	run.single[1], err = one(singles)
	return run, err
}

func (r *longRun) table() report.Table {
	t := report.Table{
		Title:  fmt.Sprintf("%s events aimed at one instant, in one run by one caller", report.Count(float64(r.events))),
		Header: []string{"", "first tenth", "fifth", "last tenth"},
		Note:   fmt.Sprintf("%s in all, %s events a second.", r.took.Round(time.Millisecond), report.Count(float64(r.events)/r.took.Seconds())),
	}
	row := func(name string, f func(tenth int) string) { t.Add(name, f(0), f(4), f(9)) }
	row("time per event", func(i int) string { return r.tenths[i].Round(10 * time.Nanosecond).String() })
	row("memory in use after it", func(i int) string { return fmt.Sprintf("%.1f MB", float64(r.heap[i])/1e6) })
	t.Add("one by one, before and after", r.single[0].Round(time.Microsecond).String(), "", r.single[1].Round(time.Microsecond).String())
	return t
}

func (r *longRun) claims() []report.Claim {
	return []report.Claim{
		report.AtMost("time per event of the last tenth over the first", 1.5, float64(r.tenths[9])/float64(r.tenths[0])),
		report.AtMost("time of one event after the run over before", 1.5, float64(r.single[1])/float64(r.single[0])),
		report.AtMost("memory after the last tenth over the first", 1.5, float64(r.heap[9])/float64(r.heap[0])),
	}
}
