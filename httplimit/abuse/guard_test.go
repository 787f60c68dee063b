package abuse_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/policy"
)

func guard(t *testing.T, events *[]abuse.Event, most int) *abuse.Guard {
	t.Helper()
	g, err := abuse.New(abuse.Config{
		MaxCallers: most, Log: slog.New(slog.DiscardHandler),
		Audit: func(e abuse.Event) { *events = append(*events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRepeatedRefusalsLeadToABan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []abuse.Event
		g := guard(t, &events, 0)
		rules := &policy.Abuse{Ban: &policy.Ban{Refusals: 3, Within: time.Minute, For: 10 * time.Minute}}
		for range 10 {
			g.Seen(rules, "calm", false)
		}
		for range 5 { // slowly enough
			g.Seen(rules, "slow", true)
			time.Sleep(31 * time.Second)
		}
		for range 3 {
			g.Seen(rules, "key:noisy", true)
		}
		if g.Banned("calm") != 0 || g.Banned("slow") != 0 || g.Banned("key:noisy") != 10*time.Minute {
			t.Errorf("%s %s %s", g.Banned("calm"), g.Banned("slow"), g.Banned("key:noisy"))
		}
		if list := g.List(); len(list) != 1 || list[0].Entity != "key:noisy" || list[0].Kind != abuse.Ban || len(events) != 1 || events[0].Lifted {
			t.Errorf("%+v, %+v", list, events)
		}
		time.Sleep(10 * time.Minute)
		if g.Banned("key:noisy") != 0 || len(g.List()) != 0 {
			t.Error("the ban does not end")
		}
		for range 3 {
			g.Seen(rules, "key:noisy", true)
		}
		for _, want := range []bool{true, false} {
			if lifted, err := g.Lift(t.Context(), "key:noisy", "admin"); err != nil || lifted != want || g.Banned("key:noisy") != 0 {
				t.Errorf("lifted %t, want %t, %v", lifted, want, err)
			}
		}
		if len(events) != 3 || !events[2].Lifted || events[2].By != "admin" {
			t.Errorf("%+v", events)
		}
	})
}

func TestASpikeOverTheUsualLeadsToEmergencyLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []abuse.Event
		g := guard(t, &events, 0)
		rules := &policy.Abuse{Emergency: &policy.Emergency{
			Factor: 5, Baseline: time.Hour, AtLeast: sluice.Per(100, time.Minute), Limit: sluice.Per(1, time.Second), For: 5 * time.Minute,
		}}
		for range 500 { // somebody new has nothing usual yet
			g.Seen(rules, "new", false)
		}
		for range 120 * 30 { // steady: 30 a minute for two hours
			g.Seen(rules, "steady", false)
			g.Seen(rules, "heavy", false)
			for range 9 {
				g.Seen(rules, "heavy", false) // 300 a minute
			}
			time.Sleep(2 * time.Second)
		}
		if g.Emergency("new") || g.Emergency("steady") || g.Emergency("heavy") {
			t.Errorf("sanctions without a spike: %+v", g.List())
		}
		for range 400 {
			g.Seen(rules, "steady", false)
			g.Seen(rules, "heavy", false)
		}
		if !g.Emergency("steady") || g.Emergency("heavy") || len(events) != 1 || events[0].Kind != abuse.Emergency {
			t.Errorf("after 400 at once: %+v", g.List())
		}
		time.Sleep(5*time.Minute + time.Second)
		if g.Emergency("steady") {
			t.Error("the emergency does not end")
		}
	})
}

func TestWhoIsWatchedIsBounded(t *testing.T) {
	var events []abuse.Event
	g := guard(t, &events, 640)
	rules := &policy.Abuse{Ban: &policy.Ban{Refusals: 1, Within: time.Minute, For: time.Hour}}
	for i := range 10_000 {
		g.Seen(rules, fmt.Sprint(i), true)
	}
	if n := len(g.List()); n > 640 || n < 300 {
		t.Errorf("%d are kept", n)
	}
}

// Callers who are not refused are neither counted nor looked up under a mutex, so
// they crowd out nobody.
func TestOnlyRefusalsCountForABan(t *testing.T) {
	var events []abuse.Event
	g := guard(t, &events, 64) // one for each shard
	rules := &policy.Abuse{Ban: &policy.Ban{Refusals: 2, Within: time.Hour, For: time.Hour}}
	g.Seen(rules, "noisy", true)
	for i := range 1000 {
		g.Seen(rules, fmt.Sprint("calm ", i), false)
	}
	g.Seen(rules, "noisy", true)
	if g.Banned("noisy") == 0 || len(events) != 1 {
		t.Errorf("the first refusal was forgotten: %+v", events)
	}
}

func TestMask(t *testing.T) {
	for entity, want := range map[string]string{
		"user:alice@example.com": "user:****.com", "key:abc": "key:****c", "acme": "****e", "x": "****", "": "****", "user:": "user:****",
		"ip:203.0.113.7": "ip:****3.7",
	} {
		if got := abuse.Mask(entity, 4); got != want {
			t.Errorf("%s: %s, want %s", entity, got, want)
		}
	}
	if got := abuse.Mask("user:alice@example.com", 0); got != "user:****" {
		t.Error(got)
	}
}
