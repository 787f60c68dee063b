package policy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// node is a process with its own copy of the policy, on a shared store.
type node struct {
	t       *testing.T
	path    string
	live    *policy.Live
	limiter *sluice.Limiter
}

func startNode(t *testing.T, store sluice.Store, content string) *node {
	t.Helper()
	n := &node{t: t, path: filepath.Join(t.TempDir(), "policy.yaml"), limiter: sluice.New(store)}
	n.write(content)
	live, err := policy.Watch(context.Background(), n.path, policy.WatchConfig{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Poll: time.Hour, Settle: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	n.live = live
	return n
}

func (n *node) write(content string) {
	n.t.Helper()
	if err := os.WriteFile(n.path, []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) reload(content string) {
	n.t.Helper()
	n.write(content)
	if err := n.live.Reload(); err != nil {
		n.t.Fatal(err)
	}
}

// passes is how many of so many requests pass.
func (n *node) passes(requests int) int {
	n.t.Helper()
	p := n.live.Policy()
	passed := 0
	for range requests {
		var demands []sluice.Demand
		route := p.Match("GET", "/")
		found := resolve(n.t, p, route, "")
		for i := range route.Sets {
			demands = route.Sets[i].Append(demands, found, "user:1")
		}
		if len(demands) == 0 {
			passed++
			continue
		}
		d, err := n.limiter.Take(context.Background(), demands...)
		if err != nil {
			n.t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

func global(limit string) string {
	return fmt.Sprintf("version: 1\nlimits: {global: {limit: %s}}\n", limit)
}

func openMemory(t *testing.T, config memory.Config) sluice.Store {
	t.Helper()
	store, err := memory.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// A reload changes numbers, not what has been used.
func TestBucketsKeepTheirStateOverAReload(t *testing.T) {
	n := startNode(t, openMemory(t, memory.Config{}), global("10/day burst 10"))
	check := func(what string, requests, want int) {
		t.Helper()
		if got := n.passes(requests); got != want {
			t.Errorf("%s: %d of %d pass, want %d", what, got, requests, want)
		}
	}
	check("first", 6, 6)
	n.reload(global("10/day burst 10") + "headers: {cost: true}\n")
	check("same limit", 6, 4)
	n.reload(global("10/day burst 15"))
	check("a higher burst is there at once", 10, 5)

	n.reload("version: 1\nlimits: {renamed: {limit: 3/day}}\n")
	check("another name is another bucket", 5, 3)
	n.reload(global("10/day burst 10"))
	check("what was used stays used", 1, 0)
	n.reload("version: 1\n")
	check("without a limit", 20, 20)
}

func TestALoweredLimitHoldsAtOnce(t *testing.T) {
	n := startNode(t, openMemory(t, memory.Config{}), global("100/day"))
	if got := n.passes(10); got != 10 {
		t.Errorf("%d pass", got)
	}
	n.reload(global("20/day"))
	if got := n.passes(50); got > 20 {
		t.Errorf("%d pass under a limit of 20", got)
	}
}

// While a change is rolled out, nodes with either file share the bucket, and
// together they stay within the looser one.
func TestTwoNodesWithDifferentPoliciesAreSafe(t *testing.T) {
	now := time.Now()
	store := openMemory(t, memory.Config{Clock: func() time.Time { return now }})
	tight, loose := startNode(t, store, global("10/minute")), startNode(t, store, global("30/minute"))
	passed := 0
	for range 60 {
		passed += tight.passes(2) + loose.passes(2)
		now = now.Add(time.Second)
	}
	if most := 30 + 30; passed > most {
		t.Errorf("%d passed in a minute, and the looser limit allows %d", passed, most)
	}
	if passed < 10 {
		t.Errorf("only %d passed", passed)
	}
}
