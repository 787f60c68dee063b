package schedule_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

// receiver records when requests reach it: after a delay on the way. Until the
// moment hold is over, all of them are held up.
type receiver struct {
	delay, answer time.Duration // at most, each way
	hold          time.Time

	mu    sync.Mutex
	times []int64
	by    map[string]int
}

func (r *receiver) call(ctx context.Context, from string) error {
	r.mu.Lock()
	delay := time.Duration(rand.Int64N(int64(r.delay) + 1))
	if held := time.Until(r.hold); held > 0 {
		delay = held
	}
	answer := time.Duration(rand.Int64N(int64(r.answer) + 1))
	r.mu.Unlock()
	time.Sleep(delay)
	r.mu.Lock()
	r.times = append(r.times, time.Now().UnixMicro())
	r.by[from]++
	r.mu.Unlock()
	time.Sleep(answer)
	return ctx.Err()
}

func (r *receiver) holdUntil(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = t
}

// from is how much was received from one sender.
func (r *receiver) from(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[name]
}

// seen is how much was received, and the most of it within one second.
func (r *receiver) seen() (all, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.times)
	return len(r.times), mostInASecond(r.times)
}

// TestReceiverSeesNoMoreThanTheRate delays requests on their way, holds all of
// them up for a while, and counts by the receiver's clock.
func TestReceiverSeesNoMoreThanTheRate(t *testing.T) {
	for _, test := range []struct {
		name     string
		pacing   schedule.Pacing
		receiver *receiver
		most     int     // in a second
		least    float64 // a second
	}{
		{"by answer", schedule.ByAnswer, &receiver{}, 50, 45},
		{"by answer, delayed", schedule.ByAnswer, &receiver{delay: 300 * time.Millisecond, answer: 100 * time.Millisecond}, 50, 36},
		{"by clock, delayed", schedule.ByClock, &receiver{delay: 300 * time.Millisecond, answer: 100 * time.Millisecond}, 1000, 46},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.assign(t, 1000)
				time.Sleep(5 * time.Second)
				there := test.receiver
				there.by = map[string]int{}
				begun := time.Now()
				var stops []func()
				for _, name := range []string{"a", "b"} {
					stops = append(stops, r.run(t, schedule.DispatcherConfig{
						Pacing: test.pacing, Name: name,
						Work: func(ctx context.Context, _ *schedule.Job) error { return there.call(ctx, name) },
					}))
				}
				time.Sleep(5 * time.Second)
				there.mu.Lock()
				clear(there.by) // the first to come had everything at first
				there.mu.Unlock()
				time.Sleep(5 * time.Second)
				all, _ := there.seen()
				if rate := float64(all) / time.Since(begun).Seconds(); rate < test.least {
					t.Errorf("%.1f a second were received, want at least %.1f", rate, test.least)
				}
				if a, b := there.from("a"), there.from("b"); a < b*2/3 || b < a*2/3 {
					t.Errorf("one started %d, the other %d", a, b)
				}
				there.holdUntil(time.Now().Add(1200 * time.Millisecond))
				time.Sleep(20 * time.Second)
				for _, stop := range stops {
					stop()
				}
				all, most := there.seen()
				if all != 1000 {
					t.Errorf("%d were received, want all", all)
				}
				if most > test.most {
					t.Errorf("%d were received within a second, want at most %d", most, test.most)
				}
				if test.pacing == schedule.ByClock && most <= 50 {
					t.Error("the delays show nothing")
				}
				// What was held has been given back.
				time.Sleep(2 * time.Second)
				page, err := r.limiter.List(t.Context(), sluice.Query{Entity: "plan:default"})
				if err != nil || len(page.Buckets) > 0 && test.pacing == schedule.ByAnswer {
					t.Errorf("%v: %+v", err, page.Buckets)
				}
			})
		})
	}
}

// cut is a store that a process can no longer reach.
type cut struct {
	sluice.Store
	off atomic.Bool
}

var errCut = errors.New("no route to host")

func (c *cut) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if c.off.Load() {
		return errCut
	}
	return c.Store.Take(ctx, t, d)
}

func (c *cut) Settle(ctx context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	if c.off.Load() {
		return errCut
	}
	return c.Store.Settle(ctx, s, d)
}

// TestPermitsOfTheLost has one of two dispatchers lose the store of limits while
// it holds permits and its requests take as long as they may. It starts nothing
// that its leases do not cover, and the other gets its permits later.
func TestPermitsOfTheLost(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 1000)
		time.Sleep(5 * time.Second)
		there := &receiver{by: map[string]int{}, delay: 1900 * time.Millisecond}
		line := &cut{Store: r.buckets}
		shared := r.limiter
		var stops []func()
		for _, name := range []string{"lost", "other"} {
			if r.limiter = shared; name == "lost" {
				r.limiter = sluice.New(line)
			}
			stops = append(stops, r.run(t, schedule.DispatcherConfig{
				Pacing: schedule.ByAnswer, Name: name, Timeout: 2 * time.Second, Concurrency: 100, BreakAfter: 1e6,
				Work: func(ctx context.Context, _ *schedule.Job) error { return there.call(ctx, name) },
			}))
		}
		time.Sleep(8 * time.Second)
		line.off.Store(true)
		time.Sleep(8 * time.Second) // its leases are used up
		all, _ := there.seen()
		lost := there.from("lost")
		time.Sleep(10 * time.Second)
		after, most := there.seen()
		if n := there.from("lost"); n != lost {
			t.Errorf("%d started without permits", n-lost)
		}
		if most > 50 {
			t.Errorf("%d were received within a second", most)
		}
		if rate := float64(after-all) / 10; rate < 22 { // 50 in 1 s and the 0.95 s that they take
			t.Errorf("the other starts %.1f a second", rate)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// TestAbandonedWorkIsCounted has work take longer than it may.
func TestAbandonedWorkIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 3)
		stop := r.run(t, schedule.DispatcherConfig{Pacing: schedule.ByAnswer, Timeout: time.Second, Work: func(ctx context.Context, job *schedule.Job) error {
			if job.Event == "e0" && job.Attempts == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		time.Sleep(30 * time.Second)
		stop()
		if n := r.Stats().Snapshot().Abandoned; n != 1 {
			t.Errorf("%d were abandoned, want 1", n)
		}
		if slot := r.state(t, "e0"); slot.State != schedule.Done || slot.Attempts != 2 {
			t.Errorf("%+v", slot)
		}
	})
}
