package advance

import (
	"testing"
	"time"
)

func TestClockDistrustsAStoreThatRunsAhead(t *testing.T) {
	var c clock
	c.start(nil)
	at := time.Unix(1_700_000_000, 0)
	heard := func(store, sent, received time.Duration) uint64 {
		c.heard(at.Add(store), sent, received)
		return c.epoch.Load()
	}
	for _, step := range []struct {
		store, sent, received time.Duration
		epoch                 uint64
		why                   string
	}{
		{0, 0, 10 * time.Millisecond, 0, "first word"},
		{time.Second, time.Second, time.Second, 0, "in step"},
		{2 * time.Second, 1600 * time.Millisecond, 2100 * time.Millisecond, 0, "a slow reply proves nothing"},
		{3*time.Second + 400*time.Millisecond, 3 * time.Second, 3 * time.Second, 0, "ahead, but within the margin"},
		{5 * time.Second, 4 * time.Second, 4 * time.Second, 1, "ahead by a second"},
		{6 * time.Second, 5 * time.Second, 5 * time.Second, 1, "it stays ahead"},
		{6 * time.Second, 8 * time.Second, 8 * time.Second, 1, "behind is harmless"},
		{8 * time.Second, 9 * time.Second, 9 * time.Second, 2, "and ahead again"},
	} {
		if got := heard(step.store, step.sent, step.received); got != step.epoch {
			t.Errorf("%s: epoch %d, want %d", step.why, got, step.epoch)
		}
	}
}

func TestClockDistrustsASuspension(t *testing.T) {
	var c clock
	c.start(nil)
	_, before := c.now()
	// After a suspension the wall clock has gone on and the monotonic clock
	// has not, as if the wall clock had said less at the start.
	c.wall -= int64(time.Hour)
	if _, after := c.now(); after == before {
		t.Error("an hour's suspension went unnoticed")
	}
	c.wall += int64(time.Minute) // set back a little: holds stay
	_, before = c.now()
	if _, after := c.now(); after != before {
		t.Error("a wall clock that was set back made holds void")
	}
}

func TestClockCanBeReplaced(t *testing.T) {
	at, mono := time.Unix(1_700_000_000, 0), time.Hour
	var c clock
	c.start(func() (time.Time, time.Duration) { return at, mono })
	for _, step := range []struct {
		wall, mono time.Duration // on
		now        time.Duration
		epoch      uint64
		why        string
	}{
		{0, 0, 0, 0, "at the start"},
		{time.Second, time.Second, time.Second, 0, "in step"},
		{time.Minute, time.Second, 2 * time.Second, 1, "the wall clock ran ahead"},
		{-time.Hour, time.Second, 3 * time.Second, 1, "and was set back"},
	} {
		at, mono = at.Add(step.wall), mono+step.mono
		if now, epoch := c.now(); now != step.now || epoch != step.epoch {
			t.Errorf("%s: %s in epoch %d, want %s in %d", step.why, now, epoch, step.now, step.epoch)
		}
	}
	if got, want := c.storeTime(time.Second), time.Unix(1_700_000_001, 0); !got.Equal(want) {
		t.Errorf("the store's time is guessed as %s, want %s", got, want)
	}
}
