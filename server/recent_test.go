package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

func TestActivityCountsTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		activity := server.NewActivity(0)
		l := sluice.New(store, sluice.WithObserver(activity))
		ctx := context.Background()
		rpm := sluice.Demand{Key: sluice.Key{Entity: "a", Limit: "rpm"}, Limit: sluice.MustParse("3/minute fixed")}
		rpd := sluice.Demand{Key: sluice.Key{Entity: "a", Limit: "rpd"}, Limit: sluice.MustParse("100/day fixed")}
		trial := sluice.Demand{Key: sluice.Key{Entity: "a", Limit: "trial"}, Limit: sluice.MustParse("1/day fixed"), Shadow: true}
		for range 5 {
			if _, err := l.Take(ctx, rpm, rpd, trial); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Peek(ctx, rpm); err != nil {
			t.Fatal(err)
		}
		if got, want := activity.Of(rpm.Key), (server.Recent{Allowed: 3, Refused: 2}); got != want {
			t.Errorf("rpm: %+v, want %+v", got, want)
		}
		if got, want := activity.Of(rpd.Key), (server.Recent{Allowed: 3}); got != want {
			t.Errorf("rpd: %+v, want %+v", got, want)
		}
		if got, want := activity.Of(trial.Key), (server.Recent{Allowed: 3}); got != want {
			t.Errorf("a shadow: %+v, want %+v", got, want)
		}
		time.Sleep(59 * time.Second)
		if got := activity.Of(rpm.Key); got.Allowed != 3 {
			t.Errorf("after 59 s: %+v", got)
		}
		time.Sleep(time.Second)
		if got := activity.Of(rpm.Key); got != (server.Recent{}) {
			t.Errorf("after a minute: %+v", got)
		}
		if got := activity.Of(sluice.Key{Entity: "nobody"}); got != (server.Recent{}) {
			t.Errorf("unknown bucket: %+v", got)
		}
	})
}

func TestActivityIsBounded(t *testing.T) {
	activity := server.NewActivity(64)
	var d sluice.Decision
	seen := 0
	for i := range 10_000 {
		take := sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Entity: fmt.Sprint(i)}}}}
		activity.Decided(&take, &d, context.Canceled, 0)
	}
	for i := range 10_000 {
		seen += int(activity.Of(sluice.Key{Entity: fmt.Sprint(i)}).Failed)
	}
	if seen == 0 || seen > 64+32 {
		t.Errorf("%d buckets are remembered, want about 64", seen)
	}
}
