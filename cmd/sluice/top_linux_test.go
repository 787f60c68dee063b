package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/redis/redistest"
)

// openPTY is a real terminal: what is written to the first is typed, and the
// second is where a program runs.
func openPTY(t *testing.T, width, height int) (outside, inside *os.File) {
	t.Helper()
	outside, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outside.Close() })
	if err := unix.IoctlSetPointerInt(int(outside.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(outside.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	resizePTY(t, outside, width, height)
	return outside, inside
}

func resizePTY(t *testing.T, outside *os.File, width, height int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(outside.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}); err != nil {
		t.Fatal(err)
	}
}

// watched is the screen of a terminal, as somebody in front of it sees it.
type watched struct {
	*vt
	t       *testing.T
	updates chan []byte
	sent    int // bytes
}

func watchPTY(t *testing.T, outside *os.File, width, height int) *watched {
	w := &watched{vt: newVT(t, width, height), t: t, updates: make(chan []byte, 100)}
	go func() {
		defer close(w.updates)
		for {
			b := make([]byte, 64<<10)
			n, err := outside.Read(b)
			if err != nil {
				return
			}
			w.updates <- b[:n]
		}
	}()
	return w
}

// until waits for something to be seen.
func (w *watched) until(what string, seen func(string) bool) {
	w.t.Helper()
	patience := time.After(time.Minute)
	for !seen(w.String()) {
		select {
		case b := <-w.updates:
			w.sent += len(b)
			w.Write(b)
		case <-patience:
			w.t.Fatalf("%s: the screen shows\n%s", what, w)
		}
	}
}

// Whoever starts top because the store is away sees that it is, and the buckets
// once it is back.
func TestTopStartsWithoutTheStore(t *testing.T) {
	redis := redistest.Start(t)
	p := begin(t, "serve", "--store", redis.URL(), "--catalog", filepath.Join(t.TempDir(), "sluice.db"))
	c := p.ask(t)
	redis.Kill()
	eventually(t, "an outage", func() bool {
		_, err := c.Buckets(t.Context(), client.BucketQuery{})
		return errors.Is(err, sluice.ErrUnavailable)
	})
	outside, inside := openPTY(t, 90, 10)
	screen := watchPTY(t, outside, 90, 10)
	t.Setenv("TERM", "xterm")
	t.Setenv("SLUICE_SERVER", p.url())
	ended := make(chan int, 1)
	go func() { ended <- run(t.Context(), []string{"top", "--every", "100ms"}, inside, inside, os.Stderr) }()
	screen.until("the outage", func(text string) bool {
		return strings.Contains(text, "0 buckets") && strings.Contains(text, "the store is away: local quotas decide")
	})
	redis.Restart()
	eventually(t, "a take that the store counts", func() bool {
		d, err := c.Take(t.Context(), client.Take{Entity: "alice", Limits: map[string]sluice.Limit{"daily": sluice.MustParse("1000/day")}})
		return err == nil && d.Source == sluice.FromStore
	})
	screen.until("the end of the outage", func(text string) bool {
		return strings.Contains(text, "alice") && !strings.Contains(text, "the store is away")
	})
	outside.WriteString("q")
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
	status := run(t.Context(), []string{"top", "--once"}, inside, io.Discard, io.Discard)
	if status != 0 {
		t.Errorf("once, with the store: exit %d", status)
	}
}

// The whole of top on a real terminal: it shows what the server says, follows
// keys and the size of the window, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	s := openServer(t)
	s.ok(t, "take", "alice", "api", "--cost", "5")
	s.ok(t, "take", "bob", "api", "--cost", "19")
	for range 3 {
		s.ok(t, "take", "carol", "api")
	}
	outside, inside := openPTY(t, 90, 10)
	screen := watchPTY(t, outside, 90, 10)
	before, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	order := func(names ...string) func(string) bool {
		return func(text string) bool {
			at := 0
			for _, name := range names {
				i := strings.Index(text[at:], name)
				if i < 0 {
					return false
				}
				at += i
			}
			return true
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	go func() { ended <- run(ctx, []string{"top", "--every", "100ms"}, inside, inside, os.Stderr) }()

	screen.until("by utilization", order("bob", "alice", "carol", "u utilization"))
	if !screen.other || !screen.hidden {
		t.Error("it does not use the other screen, or shows the cursor")
	}
	outside.WriteString("e")
	screen.until("by entity", order("alice", "bob", "carol"))
	outside.WriteString("r")
	screen.until("by requests", order("carol", "bob", "alice"))

	// Nothing changes but the time: that costs next to nothing.
	screen.sent = 0
	started := screen.String()
	screen.until("a second passes", func(text string) bool { return text != started })
	if screen.sent > 600 { // for one update, or for some that are read together
		t.Errorf("updates cost %d bytes", screen.sent)
	}
	t.Logf("an update cost %d bytes", screen.sent)

	s.ok(t, "take", "dave", "api", "--cost", "20")
	screen.until("a new bucket", order("dave"))
	resizePTY(t, outside, 60, 6)
	screen.resize(60, 6)
	screen.until("a smaller window", func(text string) bool {
		return strings.Count(text, "\n") == 6 && !strings.Contains(text, "ALLOWED") && strings.Contains(text, "q quit")
	})
	outside.WriteString("q")
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	case <-time.After(time.Minute):
		t.Fatal("q does not end it")
	}
	screen.until("the end", func(string) bool { return !screen.other && !screen.hidden })
	after, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was left as %+v, %v", after, err)
	}
}
