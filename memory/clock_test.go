package memory

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestClockFollowsOnlyForwardSteps(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var c clock
	c.start(Config{})
	start := c.now()
	c.compare(0, start+3600e6, log)
	if c.forward.Load() != 1 || c.now()-start < 3600e6 {
		t.Errorf("set forward by an hour: counted %d times, time moved by %d µs", c.forward.Load(), c.now()-start)
	}
	before := c.now()
	c.compare(0, before-3600e6, log)
	if c.back.Load() != 1 || c.now() < before {
		t.Errorf("set back: counted %d times, time moved by %d µs", c.back.Load(), c.now()-before)
	}
	if ahead := c.ahead.Load(); ahead == 0 {
		t.Error("set back: the store does not say it is ahead")
	}
}

// TestClockGaps: a process that stood still for long says so, once.
func TestClockGaps(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	var c clock
	c.start(Config{})
	origin := c.origin.UnixMicro()
	for _, running := range []time.Duration{time.Second, 15 * time.Second, 2 * time.Minute, 121 * time.Second} {
		c.compare(running, origin+running.Microseconds(), log)
	}
	if n := c.gaps.Load(); n != 1 || c.forward.Load() != 0 || strings.Count(out.String(), "for=1m45s") != 1 {
		t.Errorf("%d gaps, %d steps: %s", n, c.forward.Load(), out.String())
	}
}
