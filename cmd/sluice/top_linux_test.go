package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	screen := newVT(t, 90, 10)
	before, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	updates := make(chan []byte, 100)
	go func() {
		defer close(updates)
		for {
			b := make([]byte, 64<<10)
			n, err := outside.Read(b)
			if err != nil {
				return
			}
			updates <- b[:n]
		}
	}()
	until := func(what string, seen func(string) bool) {
		t.Helper()
		patience := time.After(time.Minute)
		for !seen(screen.String()) {
			select {
			case b := <-updates:
				sent += len(b)
				screen.Write(b)
			case <-patience:
				t.Fatalf("%s: the screen shows\n%s", what, screen)
			}
		}
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

	until("by utilization", order("bob", "alice", "carol", "u utilization"))
	if !screen.other || !screen.hidden {
		t.Error("it does not use the other screen, or shows the cursor")
	}
	outside.WriteString("e")
	until("by entity", order("alice", "bob", "carol"))
	outside.WriteString("r")
	until("by requests", order("carol", "bob", "alice"))

	// Nothing changes but the time: that costs next to nothing.
	sent = 0
	started := screen.String()
	until("a second passes", func(text string) bool { return text != started })
	if sent > 600 { // for one update, or for some that are read together
		t.Errorf("updates cost %d bytes", sent)
	}
	t.Logf("an update cost %d bytes", sent)

	s.ok(t, "take", "dave", "api", "--cost", "20")
	until("a new bucket", order("dave"))
	resizePTY(t, outside, 60, 6)
	screen.resize(60, 6)
	until("a smaller window", func(text string) bool {
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
	until("the end", func(string) bool { return !screen.other && !screen.hidden })
	after, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was left as %+v, %v", after, err)
	}
}
