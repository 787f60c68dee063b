package scheduletest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

// begin claims all that is due and begins each, as a dispatcher does that is told
// to do work once.
func (b *bench) begin(t *testing.T, events ...string) map[string]schedule.Slot {
	t.Helper()
	for _, event := range events {
		b.assign(t, event, noon)
	}
	b.clock.Advance(5 * time.Second)
	slots := map[string]schedule.Slot{}
	for _, s := range b.claim(t, "w", len(events)) {
		for range 2 { // again, after a lost answer
			if err := b.finish(t, &s, schedule.Begun, b.clock.Now().Add(30*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		slots[s.Event] = s
	}
	return slots
}

func (b *bench) state(t *testing.T, event string, want schedule.State) {
	t.Helper()
	if s, err := b.Slot(t.Context(), event); err != nil || s.State != want {
		t.Errorf("%v: %s is %s, want %s", err, event, s.State, want)
	}
}

func unknown(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 10})
	events := []string{"completed", "requeued", "cancelled", "ended", "retried", "doubted"}
	slots := b.begin(t, events...)
	ended, retried, doubted := slots["ended"], slots["retried"], slots["doubted"]
	b.state(t, "requeued", schedule.Running)
	if _, err := b.Requeue(t.Context(), "requeued", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("requeued while it may be under way: %v", err)
	}
	if _, err := b.Cancel(t.Context(), "cancelled", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("cancelled while it may be under way: %v", err)
	}
	if err := b.finish(t, &ended, schedule.Finished, time.Time{}); err != nil {
		t.Error(err)
	}
	b.state(t, "ended", schedule.Done)
	if err := b.finish(t, &retried, schedule.Retried, b.clock.Now()); err != nil {
		t.Error(err)
	}
	b.state(t, "retried", schedule.Waiting)
	for range 2 {
		if err := b.finish(t, &doubted, schedule.Doubted, b.clock.Now()); err != nil {
			t.Error(err)
		}
	}
	b.state(t, "doubted", schedule.Unknown)
	b.inDoubt(t, "doubted")

	b.clock.Advance(31 * time.Second)
	all := slices.Sorted(slices.Values([]string{"completed", "requeued", "cancelled", "doubted"}))
	b.inDoubt(t, all...)
	b.clock.Advance(30 * 24 * time.Hour) // whatever the time, it is neither claimed nor swept
	if claimed := b.claim(t, "other", 10); len(claimed) != 1 || claimed[0].Event != "retried" || claimed[0].State != schedule.Running {
		t.Errorf("claimed %+v", claimed)
	}
	if removed, err := b.Sweep(t.Context()); err != nil || removed.Slots != 1 { // what ended
		t.Errorf("%v: %+v removed", err, removed)
	}
	b.inDoubt(t, all...)

	for range 2 {
		if err := b.Complete(t.Context(), "completed", slots["completed"].Fence, nil); err != nil {
			t.Error(err)
		}
		if s, err := b.Requeue(t.Context(), "requeued", "it did not run"); err != nil || s.State != schedule.Waiting || s.Attempts != 0 {
			t.Errorf("%v: %+v", err, s)
		}
		if s, err := b.Cancel(t.Context(), "cancelled", "no matter"); err != nil || s.State != schedule.Cancelled {
			t.Errorf("%v: %+v", err, s)
		}
	}
	b.state(t, "completed", schedule.Done)
	b.inDoubt(t, "doubted")
	if claimed := b.claim(t, "other", 10); len(claimed) != 1 || claimed[0].Event != "requeued" || claimed[0].Fence != 2 {
		t.Errorf("claimed %+v", claimed)
	}
	for event, want := range map[string][]schedule.Action{
		"doubted":  {schedule.Claimed, schedule.Begun, schedule.Doubted},
		"requeued": {schedule.Claimed, schedule.Begun, schedule.Requeued, schedule.Claimed},
	} {
		if got := b.actions(t, event); !slices.Equal(got, want) {
			t.Errorf("audit of %s is %v, want %v", event, got, want)
		}
	}
}

// inDoubt checks which events are unknown, page by page.
func (b *bench) inDoubt(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for after := (schedule.Position{}); ; {
		page, err := b.InDoubt(t.Context(), "p", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Slots {
			if s.State != schedule.Unknown {
				t.Errorf("%s is %s", s.Event, s.State)
			}
			got = append(got, s.Event)
		}
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("unknown are %v, want %v", got, want)
	}
}

func targets(t *testing.T, b *bench) {
	secret := schedule.Sealed + "abc"
	want := schedule.Target{
		URL: "https://example.com/hook?a=b", Headers: map[string]string{"authorization": secret},
		Secrets: []schedule.TargetSecret{{Secret: secret}, {Secret: secret, Until: noon}}, Success: []int{200, 409}, Repeat: schedule.RepeatSafe,
	}
	saved := b.plan(t, schedule.Plan{Target: &want})
	p, err := b.Plan(t.Context(), "p")
	if err != nil || !reflect.DeepEqual(p.Target, saved.Target) || p.Target.URL != want.URL || p.Target.Method != "POST" ||
		p.Target.Timeout != schedule.Duration(10*time.Second) || p.Target.Rate.String() != "50/s burst 1" || !reflect.DeepEqual(p.Target.Secrets, want.Secrets) {
		t.Errorf("%v: %+v", err, p.Target)
	}
	for _, bad := range []schedule.Target{
		{}, {URL: "ftp://a"}, {URL: "/path"}, {URL: "http://"}, {URL: "http://u:p@a"}, {URL: "http://a#b"},
		{URL: "http://a", Method: "GET"}, {URL: "http://a", Repeat: "yes"}, {URL: "http://a", Timeout: -1}, {URL: "http://a", Attempts: -1},
		{URL: "http://a", Backoff: 2, MaxBackoff: 1}, {URL: "http://a", Concurrency: -1}, {URL: "http://a", Rate: sluice.Per(1, 48*time.Hour)}, {URL: "http://a", Success: []int{99}},
		{URL: "http://a", Secrets: []schedule.TargetSecret{{Secret: "plain"}}}, {URL: "http://a", Headers: map[string]string{"A": "plain"}},
		{URL: "http://a", Headers: map[string]string{"webhook-id": secret}}, {URL: "http://a", Headers: map[string]string{"host": secret}},
		{URL: "http://a", Headers: map[string]string{"a b": secret}}, {URL: "http://a", Headers: map[string]string{"a": secret, "A": secret}},
	} {
		if _, err := b.SetPlan(t.Context(), schedule.Plan{Name: "p", Target: &bad}); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
	if saved := b.plan(t, schedule.Plan{}); saved.Target != nil {
		t.Errorf("the target stays: %+v", saved.Target)
	}
}
