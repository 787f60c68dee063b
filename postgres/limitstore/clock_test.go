package limitstore

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		var c clock
		ahead := time.Hour // the database's clock, of this one
		ask := func(takes, decidedAfter time.Duration) {
			asked := time.Now()
			there := asked.Add(decidedAfter + ahead).UnixMicro()
			time.Sleep(takes)
			c.saw(there, asked, log)
		}
		want := func(back, forward int64) {
			t.Helper()
			if c.back != back || c.forward != forward {
				t.Fatalf("set back %d and forward %d times, want %d and %d", c.back, c.forward, back, forward)
			}
		}
		wantGaps := func(gaps int64) {
			t.Helper()
			if c.gaps != gaps {
				t.Fatalf("not heard of for long %d times, want %d", c.gaps, gaps)
			}
		}
		ask(time.Millisecond, 0)
		time.Sleep(14 * time.Second)
		ask(time.Millisecond, 0)
		wantGaps(0)
		time.Sleep(time.Minute)
		ask(3*time.Second, 0) // a slow call is no step,
		ask(time.Millisecond, 0)
		ask(3*time.Second, 3*time.Second) // whenever in it the clock was read
		ask(time.Millisecond, 0)
		want(0, 0)
		wantGaps(1)
		ahead -= time.Second
		ask(time.Millisecond, 0)
		want(1, 0)
		ahead += time.Second
		time.Sleep(time.Minute)
		ask(time.Millisecond, 0)
		ask(time.Millisecond, 0)
		want(1, 1)
		wantGaps(1) // a step is not counted again
		if got := time.Until(time.UnixMicro(c.now())); got < ahead-time.Second || got > ahead+time.Second {
			t.Errorf("the database's clock is taken to be %s ahead, want %s", got, ahead)
		}
	})
}
