package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/internal/faultproxy"
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

// Of three nodes, one loses the store. It goes on with its part of a limit that all
// callers share, so that together they let pass (1 + lost/nodes) times the limit at most.
func TestANodeThatLosesTheStoreAddsItsPartOnly(t *testing.T) {
	redis := redistest.Start(t)
	dir := t.TempDir()
	policy := writeFile(t, dir, "policy.yaml", "version: 1\nlimits: {all: {per: everyone, limit: 300/day}}\nidentity: {address: {trusted_proxies: 127.0.0.0/8}}\n")
	var nodes [3]*process
	proxy := faultproxy.Start(t, redis.Addr())
	for i := range nodes {
		at := redis.URL()
		if i == 0 {
			at = "redis://" + proxy.Addr()
		}
		nodes[i] = begin(t, "serve", "--store", at, "--policy", policy, "--catalog", filepath.Join(dir, fmt.Sprint(i, ".db")))
	}
	eventually(t, "nodes that know of each other", func() bool {
		for _, n := range nodes {
			if list, err := n.ask(t).Nodes(t.Context()); err != nil || len(list.Nodes) != len(nodes) {
				return false
			}
		}
		return true
	})
	ask := func(n *process) int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", n.url()+"/auth", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "10.0.0.1")
		r.Header.Set("X-Forwarded-Method", "GET")
		r.Header.Set("X-Forwarded-Uri", "/")
		response, text, err := fetch(http.DefaultClient, r)
		if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%v, %s", err, text)
		}
		return response.StatusCode
	}
	defer proxy.Stall()()
	passed := 0
	eventually(t, "an outage", func() bool {
		if ask(nodes[0]) == http.StatusOK {
			passed++
		}
		list, err := nodes[0].ask(t).Nodes(t.Context())
		return err == nil && list.Store == "open"
	})
	for _, n := range nodes {
		for range 350 {
			if ask(n) == http.StatusOK {
				passed++
			}
		}
	}
	if passed <= 300 || passed > 400 {
		t.Errorf("%d passed of 300, want at most 400", passed)
	}
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
