package advance

import (
	"testing"
	"time"
)

func TestClockDistrustsAStoreThatRunsAhead(t *testing.T) {
	var c clock
	c.start()
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
	c.start()
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
