package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func bucket(entity string, used float64, allowed int64) client.Bucket {
	return client.Bucket{
		Entity: entity, Resource: "chat", Limit: "rpm", Rule: sluice.MustParse("100/minute"),
		Remaining: sluice.Tokens((100 - used) * 1000), Utilization: used, Alarm: catalog.Thresholds{}.Alarm(used),
		ResetAfter: time.Duration(used) * time.Second, Recent: &client.Recent{Allowed: allowed, Limited: allowed / 10},
	}
}

func exampleLook() *look {
	return &look{at: epoch, buckets: []client.Bucket{
		bucket("alice", 42.5, 12), bucket("bob", 93, 300), bucket("a company with a long name, limited", 71, 7), bucket("debtor", 130, 0),
	}}
}

func TestTopView(t *testing.T) {
	c := &call{}
	c.server = "http://127.0.0.1:8080"
	for _, size := range []struct {
		width, height int
		order         string
		want          string
	}{
		{100, 7, "u", `
sluice top  03:04:05Z  http://127.0.0.1:8080  4 buckets  2 critical  1 warning
ENTITY        RESOURCE  LIMIT                             USED         LEFT ALLOWED LIMITED FULL IN
debtor        chat      rpm         ████████████████████  130% !!       -30       0       0      2m
bob           chat      rpm         ██████████████████▌    93% !!         7     300      30      1m
a company wi… chat      rpm         ██████████████▏        71% !         29       7       0      1m
alice         chat      rpm         ████████▌              42%         57.5      12       1     42s
u utilisation  r requests  e entity  q quit
`},
		{72, 5, "r", `
sluice top  03:04:05Z  http://127.0.0.1:8080  4 buckets  2 critical  1 …
ENTITY  RESO… LIMIT                   USED         LEFT ALLOWED LIMITED
bob     chat  rpm     █████████████    93% !!         7     300      30
alice   chat  rpm     █████▉           42%         57.5      12       1
u utilisation  r requests  e entity  q quit
`},
		{40, 4, "e", `
sluice top  03:04:05Z  http://127.0.0.1…
EN… R… LIM…           USED         LEFT
a … c… rpm  █████▋     71% !         29
u utilisation  r requests  e entity  q …
`},
	} {
		now := exampleLook()
		now.sort(size.order)
		top := topFlags{order: size.order}
		f := top.draw(c, now, size.width, size.height)
		if got := textOf(f.width, f.cells); got != strings.TrimPrefix(size.want, "\n") {
			t.Errorf("%d by %d: got\n%s", size.width, size.height, got)
		}
	}
	for _, size := range [][2]int{{1, 1}, {3, 2}, {20, 1}, {1000, 1000}} {
		(&topFlags{order: "u"}).draw(c, exampleLook(), size[0], size[1])
	}
}

func TestTopColoursByAlarm(t *testing.T) {
	now := exampleLook()
	now.sort("u")
	f := (&topFlags{order: "u"}).draw(&call{}, now, 100, 10)
	for y, want := range map[int]style{2: red, 3: red, 4: yellow, 5: green} {
		found := map[style]bool{}
		for _, c := range f.cells[y*100 : (y+1)*100] {
			found[c.style] = true
		}
		if !found[want] || len(found) != 2 {
			t.Errorf("line %d has styles %v, want %d and plain", y, found, want)
		}
	}
}

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
		patience := time.After(20 * time.Second)
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
	con := &console{stdin: inside, stdout: inside, stderr: os.Stderr, lookup: func(string) (string, bool) { return "", false }}
	go func() { ended <- runIn(ctx, con, []string{"top", "--server", s.url, "--every", "100ms"}) }()

	until("by utilisation", order("bob", "alice", "carol", "u utilisation"))
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
	if sent > 60 {
		t.Errorf("an update cost %d bytes", sent)
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
	case <-time.After(20 * time.Second):
		t.Fatal("q does not end it")
	}
	until("the end", func(string) bool { return !screen.other && !screen.hidden })
	after, err := unix.IoctlGetTermios(int(inside.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was left as %+v, %v", after, err)
	}
}

// A server that goes away leaves what was seen last, and says so.
func TestTopShowsErrors(t *testing.T) {
	now := exampleLook()
	now.err = errors.New("gone\x1b[31m")
	f := (&topFlags{order: "u"}).draw(&call{}, now, 60, 8)
	text := textOf(60, f.cells)
	if !strings.Contains(text, "gone�[31m") && !strings.Contains(text, "gone?[31m") || !strings.Contains(text, "bob") {
		t.Errorf("got\n%s", text)
	}
}
