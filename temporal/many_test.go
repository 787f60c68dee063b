package temporal_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

var many = flag.Int("temporal.events", 200, "how many events TestManyEventsEachOnce starts")

// Each event's workflow runs once, with its own payload, not before its slot.
// How long after is told and not judged: timers of Temporal resolve to a second.
func TestManyEventsEachOnce(t *testing.T) {
	b := open(t, schedule.Plan{MaxPerWindow: 40, WindowSize: time.Second, Headroom: 10_000}, nil)
	b.work(t)
	at := time.Now().Add(2 * time.Second)
	slots := make([]schedule.Slot, *many)
	var starting sync.WaitGroup
	next := make(chan int)
	for range 16 {
		starting.Go(func() {
			for i := range next {
				var err error
				for range 2 { // each is asked for twice
					slots[i], err = b.starter.Start(t.Context(), schedule.Request{
						Event: name(t, fmt.Sprint(i)), Plan: "payments", At: at, Payload: fmt.Appendf(nil, "%d", i),
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range slots {
		next <- i
	}
	close(next)
	starting.Wait()

	runs := map[string][]run{}
	for i := range slots {
		if err := b.config.Client.GetWorkflow(t.Context(), slots[i].Event, "").Get(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", slots[i].Event, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		runs[r.event] = append(runs[r.event], r)
	}
	var after []time.Duration
	windows := map[time.Time]int{}
	for i := range slots {
		ran := runs[slots[i].Event]
		if len(ran) != 1 || ran[0].payload != fmt.Sprint(i) {
			t.Errorf("%s ran as %+v", slots[i].Event, ran)
			continue
		}
		if ran[0].began.Before(slots[i].Scheduled) {
			t.Errorf("%s began at %s, before its slot at %s", slots[i].Event, ran[0].began, slots[i].Scheduled)
		}
		after = append(after, ran[0].began.Sub(slots[i].Scheduled))
		windows[slots[i].Window]++
	}
	for window, n := range windows {
		if n > 40 {
			t.Errorf("%d in the window at %s", n, window)
		}
	}
	slices.Sort(after)
	t.Logf("%d workflows, each once, in %d windows; they began after their slots by: median %s, 99 %% %s, most %s",
		len(runs), len(windows), after[len(after)/2], after[len(after)*99/100], after[len(after)-1])
}
