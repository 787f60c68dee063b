package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func bucket(entity string, used float64, allowed int64) client.Bucket {
	return client.Bucket{
		Entity: entity, Resource: "chat", Limit: "rpm", Rule: sluice.MustParse("100/minute"),
		Remaining: sluice.Thousandths(int64((100 - used) * 1000)), Utilization: used, Alarm: catalog.Thresholds{}.Alarm(used),
		ResetAfter: time.Duration(used) * time.Second, Activity: client.Activity{Node: &client.Node{Allowed: allowed, Refused: allowed / 10}},
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
ENTITY        RESOURCE  LIMIT                             USED         LEFT ALLOWED REFUSED FULL IN
debtor        chat      rpm         ████████████████████  130% !!       -30       0       0      2m
bob           chat      rpm         ██████████████████▌    93% !!         7     300      30      1m
a company wi… chat      rpm         ██████████████▏        71% !         29       7       0      1m
alice         chat      rpm         ████████▌              42%         57.5      12       1     42s
u utilization  r requests  e entity  q quit
`},
		{104, 4, "r", `
sluice top  03:04:05Z  http://127.0.0.1:8080  4 buckets  2 critical  1 warning
ENTITY      RESOURCE LIMIT                            USED         LEFT ALLOWED REFUSED FULL IN WAITING
bob         chat     rpm        ██████████████████▌    93% !!         7     300      30      1m       0
u utilization  r requests  e entity  q quit
`},
		{72, 5, "r", `
sluice top  03:04:05Z  http://127.0.0.1:8080  4 buckets  2 critical  1 …
ENTITY  RESO… LIMIT                   USED         LEFT ALLOWED REFUSED
bob     chat  rpm     █████████████    93% !!         7     300      30
alice   chat  rpm     █████▉           42%         57.5      12       1
u utilization  r requests  e entity  q quit
`},
		{40, 4, "e", `
sluice top  03:04:05Z  http://127.0.0.1…
EN… R… LIM…           USED         LEFT
a … c… rpm  █████▋     71% !         29
u utilization  r requests  e entity  q …
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

func TestTopShowsTheStateOfTheStore(t *testing.T) {
	for state, want := range map[string]bool{"": false, "normal": false, "testing": true} {
		now := exampleLook()
		now.store = state
		f := (&topFlags{order: "u"}).draw(&call{}, now, 80, 8)
		if text := textOf(80, f.cells); strings.Contains(text, "the store is testing: local quotas decide") != want {
			t.Errorf("%q: got\n%s", state, text)
		}
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
