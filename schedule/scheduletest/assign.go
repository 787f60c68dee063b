package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

func expect(t *testing.T, got, want map[int]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("windows have %v events, want %v", got, want)
	}
}

func fillsWindows(t *testing.T, b *bench) {
	b.plan(t, small())
	at := noon.Add(9 * time.Second) // in the middle of a window
	for i := range 7 {
		slot := b.assign(t, fmt.Sprint("e", i), at)
		if slot.Plan != "p" || slot.Version != 1 || slot.State != schedule.Waiting || slot.Existing {
			t.Errorf("got %+v", slot)
		}
	}
	expect(t, b.used(t), map[int]int{8: 3, 12: 3, 16: 1})
	b.assign(t, "early", noon)
	b.assign(t, "late", noon.Add(time.Hour))
	b.assign(t, "between", at)
	expect(t, b.used(t), map[int]int{0: 1, 8: 3, 12: 3, 16: 2, 3600: 1})
}

func keepsSlot(t *testing.T, b *bench) {
	b.plan(t, small())
	b.plan(t, schedule.Plan{Name: "other"})
	first, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p", Payload: []byte(`{"amount": 1}`)})
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p", At: noon.Add(time.Hour), Payload: []byte(`2`)})
	if err != nil {
		t.Fatal(err)
	}
	if !second.Existing || !second.Scheduled.Equal(first.Scheduled) || string(second.Payload) != `{"amount": 1}` {
		t.Errorf("the second time it is %+v, the first time %+v", second, first)
	}
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "other"}); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("in another plan: %v, want a conflict", err)
	}
	expect(t, b.used(t), map[int]int{0: 1})
	expect(t, Count(t, b.store, b.Scheduler, "", "other"), map[int]int{})
}

func refusesBadRequests(t *testing.T, b *bench) {
	b.plan(t, small())
	for _, r := range []schedule.Request{
		{},
		{Event: strings.Repeat("e", 256)},
		{Event: "a\x00b"},
		{Event: "e", Plan: "with space"},
		{Event: "e", Plan: "p", At: time.Unix(-1, 0)},
		{Event: "e", Plan: "p", Payload: []byte("{")},
		{Event: "e", Plan: "p", Payload: []byte(`"` + strings.Repeat("x", schedule.MaxPayload) + `"`)},
	} {
		_, err := b.Assign(t.Context(), r)
		var field *sluice.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%.60v: %v, want a field error", r, err)
		}
	}
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "nope"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
	if _, err := b.AssignBatch(t.Context(), nil); err == nil {
		t.Error("an empty batch is accepted")
	}
	if _, err := b.AssignBatch(t.Context(), []schedule.Request{{Event: "e", Plan: "nope"}}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("batch in no such plan: %v", err)
	}
}

func pastMeansNow(t *testing.T, b *bench) {
	b.plan(t, small())
	b.clock.Advance(2 * time.Second)
	for i := range 3 {
		slot := b.assign(t, fmt.Sprint("e", i), noon.Add(-time.Hour))
		if slot.Scheduled.Before(b.clock.Now()) {
			t.Errorf("scheduled %s, before now", slot.Scheduled)
		}
	}
	expect(t, b.used(t), map[int]int{0: 3})
}

func requests(n int, prefix string, at func(i int) time.Time) []schedule.Request {
	rs := make([]schedule.Request, n)
	for i := range rs {
		rs[i] = schedule.Request{Event: fmt.Sprint(prefix, i), Plan: "p", At: at(i)}
	}
	return rs
}

func (b *bench) batch(t *testing.T, rs []schedule.Request) []schedule.Result {
	t.Helper()
	results, err := b.AssignBatch(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("%s: %v", rs[i].Event, r.Err)
		}
		if r.Slot.Event != rs[i].Event || r.Slot.Scheduled.Before(rs[i].At) {
			t.Errorf("%s at %s got %+v", rs[i].Event, rs[i].At, r.Slot)
		}
	}
	return results
}

func batchIsLikeItsEvents(t *testing.T, b *bench) {
	b.plan(t, small())
	b.assign(t, "single", noon)
	rs := requests(6, "e", func(int) time.Time { return noon })
	first := b.batch(t, rs)
	expect(t, b.used(t), map[int]int{0: 3, 4: 3, 8: 1})
	again := b.batch(t, append(rs, schedule.Request{Event: "new", Plan: "p"}))
	for i := range first {
		if s := again[i].Slot; !s.Existing || !s.Scheduled.Equal(first[i].Slot.Scheduled) {
			t.Errorf("the second time it is %+v, the first time %+v", s, first[i].Slot)
		}
	}
	expect(t, b.used(t), map[int]int{0: 3, 4: 3, 8: 2})
}

func batchOverManyWindows(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 2})
	// Greedy by hand: each event goes into the first window with room.
	var rs []schedule.Request
	want := map[int]int{}
	for i := range 300 {
		second := rand.IntN(400)
		rs = append(rs, schedule.Request{Event: fmt.Sprint(i), Plan: "p", At: noon.Add(time.Duration(second) * time.Second)})
		want[second/4*4]++
	}
	for s := 0; s < 4000; s += 4 { // what does not fit goes on to the next
		if over := want[s] - 2; over > 0 {
			want[s] = 2
			want[s+4] += over
		}
		if want[s] == 0 {
			delete(want, s)
		}
	}
	b.batch(t, rs)
	expect(t, b.used(t), want)
}

func batchTellsEach(t *testing.T, b *bench) {
	b.plan(t, small())
	b.plan(t, schedule.Plan{Name: "other"})
	b.assign(t, "taken", noon)
	results, err := b.AssignBatch(t.Context(), []schedule.Request{
		{Event: "new", Plan: "p"},
		{Event: "", Plan: "p"},
		{Event: "taken", Plan: "other"},
		{Event: "new", Plan: "p"},
		{Event: "x", Plan: "nope"},
		{Event: "new", Plan: "other"},
		{Event: "taken", Plan: "p"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var field *sluice.FieldError
	switch {
	case results[0].Err != nil || results[0].Slot.Existing:
		t.Errorf("new: %+v", results[0])
	case !errors.As(results[1].Err, &field):
		t.Errorf("no name: %+v", results[1])
	case !errors.Is(results[2].Err, schedule.ErrConflict):
		t.Errorf("in another plan: %+v", results[2])
	case results[3].Err != nil || !results[3].Slot.Scheduled.Equal(results[0].Slot.Scheduled):
		t.Errorf("twice: %+v", results[3])
	case !errors.Is(results[4].Err, schedule.ErrNotFound):
		t.Errorf("no plan: %+v", results[4])
	case !errors.Is(results[5].Err, schedule.ErrConflict):
		t.Errorf("twice in two plans: %+v", results[5])
	case results[6].Err != nil || !results[6].Slot.Existing:
		t.Errorf("had a slot: %+v", results[6])
	}
	expect(t, b.used(t), map[int]int{0: 2})
}

// preparesMore needs more windows than are prepared at a time.
func preparesMore(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 1, Headroom: 1000})
	b.batch(t, requests(700, "batch", func(int) time.Time { return noon }))
	for i := range 3 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	want := map[int]int{}
	for i := range 703 {
		want[4*i] = 1
	}
	expect(t, b.used(t), want)
	fresh := b.node(t, b.Open(), "") // has to find its way behind them
	if _, err := fresh.Assign(t.Context(), schedule.Request{Event: "fresh", Plan: "p"}); err != nil {
		t.Fatal(err)
	}
	want[4*703] = 1
	expect(t, b.used(t), want)
}

// tinyWindows has windows of a millisecond, and a store that takes a second to
// answer: time goes on between preparing windows and searching them.
func tinyWindows(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{WindowSize: time.Millisecond})
	s, err := schedule.New(schedule.Config{Store: b.store, Log: slog.New(slog.DiscardHandler), Clock: func() time.Time {
		b.clock.Advance(time.Second)
		return b.clock.Now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Assign(ctx, schedule.Request{Event: "one", Plan: "p"}); err != nil {
		t.Error(err)
	}
	if _, err := s.AssignBatch(ctx, []schedule.Request{{Event: "two", Plan: "p"}, {Event: "three", Plan: "p"}}); err != nil {
		t.Error(err)
	}
}

func exhaustion(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 2, Calendar: &schedule.Calendar{
		Blackouts: []schedule.Blackout{{From: noon.Add(12 * time.Second), To: noon.AddDate(3, 0, 0)}},
	}})
	for i := range 6 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	_, err := b.Assign(t.Context(), schedule.Request{Event: "one", Plan: "p"})
	var exhausted *schedule.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.Depth != 3 || exhausted.Event != "one" {
		t.Errorf("got %v, want exhaustion after 3 windows", err)
	}
	results, err := b.AssignBatch(t.Context(), []schedule.Request{{Event: "e0", Plan: "p"}, {Event: "two", Plan: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil || !errors.As(results[1].Err, &exhausted) || exhausted.Depth != 3 {
		t.Errorf("batch: %+v", results)
	}
	if n := b.Stats().Snapshot().Failures; n != 2 {
		t.Errorf("%d failures counted, want 2", n)
	}
	expect(t, b.used(t), map[int]int{0: 2, 4: 2, 8: 2})
}

// headroom fills what is within reach of the requested time, and no more.
func headroom(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 2, Headroom: 3})
	for i := range 4 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	results, err := b.AssignBatch(t.Context(), requests(20, "batch", func(i int) time.Time { return noon.Add(time.Duration(i/10) * 4 * time.Second) }))
	if err != nil {
		t.Fatal(err)
	}
	var exhausted *schedule.ExhaustedError
	refused := 0
	for _, r := range results {
		if errors.As(r.Err, &exhausted) {
			refused++
		}
	}
	if refused != 14 { // windows 8 and 12 for all, and 16 for those wanted at 4
		t.Errorf("%d events of the batch got no slot, want 14", refused)
	}
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "one", Plan: "p", At: noon}); !errors.As(err, &exhausted) || exhausted.Depth != 4 {
		t.Errorf("got %v, want exhaustion after the window and its headroom", err)
	}
	b.assign(t, "later", noon.Add(20*time.Second))
	expect(t, b.used(t), map[int]int{0: 2, 4: 2, 8: 2, 12: 2, 16: 2, 20: 1})
}

func notAfter(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 50})
	latest := noon.Add(time.Second)
	var exhausted *schedule.ExhaustedError
	for i := range 50 { // in the part of the window that is before it
		slot, err := b.Assign(t.Context(), schedule.Request{Event: fmt.Sprint("e", i), Plan: "p", At: noon, NotAfter: latest})
		if err != nil || slot.Scheduled.After(latest) {
			t.Fatalf("%v: %+v, want one until %s", err, slot, latest)
		}
	}
	full := schedule.Request{Event: "full", Plan: "p", At: noon, NotAfter: latest}
	if _, err := b.Assign(t.Context(), full); !errors.As(err, &exhausted) || !exhausted.NotAfter.Equal(latest) || exhausted.Depth != 1 {
		t.Errorf("got %v, want exhaustion", err)
	}
	full.NotAfter = noon.Add(10 * time.Second)
	results := b.batch(t, []schedule.Request{full, {Event: "e1", Plan: "p", NotAfter: latest}})
	if slot := results[0].Slot; slot.Window != noon.Add(4*time.Second) || !results[1].Slot.Existing {
		t.Errorf("%+v", results)
	}
	b.clock.Advance(time.Hour)
	if slot, err := b.Assign(t.Context(), schedule.Request{Event: "e0", Plan: "p", At: noon, NotAfter: latest}); err != nil || !slot.Existing {
		t.Errorf("%v: asked again when the time is over: %+v", err, slot)
	}
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "over", Plan: "p", At: noon, NotAfter: latest}); !errors.As(err, &exhausted) {
		t.Errorf("a time in the past: %v", err)
	}
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "bad", Plan: "p", At: latest, NotAfter: noon}); err == nil || errors.As(err, &exhausted) {
		t.Errorf("not after a time before: %v", err)
	}
}

// manyWriters has several nodes assign overlapping events in every way.
func manyWriters(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 7})
	const nodes, events = 4, 100
	var group sync.WaitGroup
	for n := range nodes {
		s := b.node(t, b.Open(), "")
		group.Go(func() {
			all := requests(events, "e", func(int) time.Time { return noon })
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for len(all) > 0 {
				k := 1
				if n%2 == 0 {
					k = min(13, len(all))
				}
				var results []schedule.Result
				var err error
				if k == 1 {
					_, err = s.Assign(context.Background(), all[0])
				} else {
					results, err = s.AssignBatch(context.Background(), all[:k])
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range results {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
				all = all[k:]
			}
		})
	}
	group.Wait()
	total := 0
	for second, n := range b.used(t) {
		if n > 7 {
			t.Errorf("window %d has %d events, at most 7 fit", second, n)
		}
		total += n
	}
	if total != events {
		t.Errorf("%d events have slots, want %d", total, events)
	}
}
