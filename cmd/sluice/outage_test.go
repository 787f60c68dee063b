package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/redis/redistest"
)

// A server whose Redis goes and comes back says so.
func TestAnOutageShows(t *testing.T) {
	redis := redistest.Start(t)
	p := begin(t, "serve", "--store", redis.URL(), "--catalog", filepath.Join(t.TempDir(), "sluice.db"), "--admin-listen", "127.0.0.1:0")
	c := p.ask(t)
	shows := func(state string) bool {
		_, text := p.get(t, "/readyz")
		s, err := c.Status(t.Context(), client.Subject{Entity: "alice", Resource: "chat"})
		return strings.Contains(text, `"store":{"state":"`+state+`"`) && err == nil && s.Store == state &&
			strings.Contains(statusText(&s), "the store is "+state+":") == (state != "normal")
	}
	eventually(t, "a store in order", func() bool { return shows("normal") })
	redis.Kill()
	eventually(t, "an outage", func() bool { return shows("open") })
	redis.Restart()
	eventually(t, "an end of it", func() bool { return shows("normal") })
}

// Without --store the buckets are kept beside the catalog, by one server alone.
func TestBucketsSurviveARestartByDefault(t *testing.T) {
	args := []string{"serve", "--catalog", filepath.Join(t.TempDir(), "sluice.db")}
	p := begin(t, args...)
	if file := args[2] + ".buckets"; !strings.Contains(p.greeting, "saved to "+file) {
		t.Errorf("the banner does not say where buckets are kept:\n%s", p.greeting)
	}
	daily := client.Take{Entity: "alice", Limits: map[string]sluice.Limit{"daily": sluice.MustParse("10/day")}}
	if _, err := p.ask(t).Take(t.Context(), daily); err != nil {
		t.Fatal(err)
	}
	second := exec.Command(os.Args[0], append(args, "--listen", "127.0.0.1:0")...)
	second.Env = append(os.Environ(), asCommand+"=1")
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "is in use by another sluice") {
		t.Errorf("a second server on the same files: %v, %s", err, out)
	}
	p.signal(t, syscall.SIGTERM)
	p.wait(t)
	d, err := begin(t, args...).ask(t).Take(t.Context(), daily)
	if err != nil || d.Results[0].Remaining.Whole() != 8 {
		t.Errorf("after a restart: %+v, %v, want 8 left", d, err)
	}
}
