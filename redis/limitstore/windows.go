package limitstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// windows are three calendar windows next to each other, by their boundaries.
// The script knows no time zones, so every demand under a calendar limit says
// where the windows around now are; the script picks one by the server's time.
type windows [4]int64

// around are the windows around t, the one it is in in the middle.
func (c *compiled) around(t int64) *windows {
	if w := c.windows.Load(); w != nil && w[1] <= t && t < w[2] {
		return w
	}
	var w windows
	w[1], w[2] = c.spec.Window(t)
	w[0], _ = c.spec.Window(w[1] - 1)
	_, w[3] = c.spec.Window(w[2])
	c.windows.Store(&w)
	return &w
}

func (c *compiled) calendar() bool { return c.spec.Limit.Calendar != sluice.NoCalendar }

func (w *windows) appendTo(b []byte) []byte {
	for _, t := range w {
		b = appendNumber(b, t)
	}
	return b
}

// windowError is the answer of a script that needs calendar windows around
// another time than the node thought it was.
type windowError struct {
	time   int64  // of the bucket
	server int64  // which may be behind
	limit  string // whose windows; only settlements say
}

func (e *windowError) Error() string {
	return fmt.Sprintf("needs calendar windows around %s", time.UnixMicro(e.time).UTC())
}

// maxWindowTries is how often a call is sent again with better windows. A
// bucket whose time is ahead of the server's may need a second one.
const maxWindowTries = 4

// withWindows does a call until the calendar windows it sends fit. Such an
// answer proves that nothing has happened.
func (s *Store) withWindows(do func(now int64) error) error {
	now := s.nodeTime()
	for range maxWindowTries {
		err := do(now)
		var w *windowError
		if !errors.As(err, &w) {
			return err
		}
		s.skew.Store(w.server - time.Now().UnixMicro())
		now = w.time
	}
	return fmt.Errorf("redis: the server's time and the calendar do not agree: %w", sluice.ErrUnavailable)
}

// nodeTime is what the node thinks the server's time is. It only serves to
// guess calendar windows.
func (s *Store) nodeTime() int64 {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock().UnixMicro()
	}
	return time.Now().UnixMicro() + s.skew.Load()
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
