package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/schedule"
)

var (
	targetEvents = flag.Int("target.events", 250, "events that TestFleetCallsTarget sends; above 1000 it waits until none is left")
	targetRate   = flag.Int64("target.rate", 50, "their rate, a second")
)

// TestFleetCallsTarget has three servers call a target while one after the other
// is killed and replaced, and a blackout is set meanwhile. The target records by
// its own clock.
func TestFleetCallsTarget(t *testing.T) {
	type call struct {
		event string
		at    time.Time
	}
	var mu sync.Mutex
	var calls []call
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, call{r.Header.Get("Webhook-Id"), time.Now()})
	}))
	defer receiver.Close()
	received := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(calls)
	}
	database := postgrestest.Database(t)
	serve := func() *process {
		return begin(t, "serve", "--catalog", database, "--store", database, "--target-allow", "127.0.0.1")
	}
	fleet := []*process{serve(), serve(), serve()}
	ctx, c := t.Context(), fleet[2].ask(t)
	plan, err := c.SetSlotPlan(ctx, schedule.Plan{Name: "calls", MaxPerWindow: 1_000_000, WindowSize: time.Millisecond, Target: &schedule.Target{
		URL: receiver.URL, Rate: sluice.Per(*targetRate, time.Second).WithBurst(1), Timeout: schedule.Duration(time.Second),
	}})
	if err != nil {
		t.Fatal(err)
	}
	due := map[string]time.Time{}
	for begun := 0; begun < *targetEvents; begun += 1000 {
		rs := make([]schedule.Request, min(1000, *targetEvents-begun))
		for i := range rs {
			rs[i] = schedule.Request{Event: fmt.Sprint("e", begun+i), Plan: "calls"}
		}
		results, err := c.AssignSlots(ctx, rs)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			due[r.Slot.Event] = r.Slot.Scheduled
		}
	}
	eventually(t, "calls", func() bool { return received() > *targetEvents/5 })
	from := time.Now().Add(time.Second)
	to := from.Add(schedule.DefaultCacheTTL + 3*time.Second)
	plan.Calendar = &schedule.Calendar{Blackouts: []schedule.Blackout{{From: from, To: to}}}
	if _, err := c.SetSlotPlan(ctx, plan); err != nil {
		t.Fatal(err)
	}
	if set := time.Now(); set.After(from) {
		from = set
	}
	from = from.Add(schedule.DefaultCacheTTL + time.Second) // all have read it, whether they were notified or not, and what began before has been received
	kills := max(1, *targetEvents/1000)
	for k := range kills { // the third stays, to be asked
		until := *targetEvents * (k + 2) / (kills + 4)
		eventually(t, "more calls", func() bool { return received() > until })
		fleet[k%2].kill(t)
		fleet[k%2] = serve()
	}
	// What a killed server had claimed comes back when its claims run out.
	eventually(t, "most calls", func() bool { return received() >= *targetEvents*4/5 })
	unknown := 0
	if *targetEvents > 1000 {
		for event := range due {
			eventually(t, event+" ends", func() bool {
				slot, err := c.Slot(ctx, event)
				if err == nil && slot.State == schedule.Unknown {
					unknown++
				}
				return err == nil && (slot.State == schedule.Done || slot.State == schedule.Unknown)
			})
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(calls, func(a, b call) int { return a.at.Compare(b.at) })
	seen, most, first, dark := map[string]int{}, 0, 0, 0
	for i, c := range calls {
		for c.at.Sub(calls[first].at) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
		if seen[c.event]++; seen[c.event] > 1 {
			t.Errorf("%s was called %d times", c.event, seen[c.event])
		}
		if c.at.Before(due[c.event]) {
			t.Errorf("%s was called %s before its time", c.event, due[c.event].Sub(c.at))
		}
		if c.at.After(from) && c.at.Before(to) {
			dark++
		}
	}
	if dark > 0 {
		t.Errorf("%d calls in a blackout, of which %s count", dark, to.Sub(from))
	}
	if int64(most) > *targetRate {
		t.Errorf("%d calls within a second, want at most %d", most, *targetRate)
	}
	t.Logf("%d calls of %d events in %s, %d kills, %d unknown, at most %d in a second, %s of a blackout", len(calls), *targetEvents,
		calls[len(calls)-1].at.Sub(calls[0].at).Round(time.Millisecond), kills, unknown, most, to.Sub(from).Round(time.Millisecond))
}
