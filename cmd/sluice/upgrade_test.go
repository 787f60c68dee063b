package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

var earlier = flag.String("upgrade.from", "", "a sluice binary of an earlier commit, for TestUpgrade; scripts/upgrade builds it")

// Nodes of an earlier commit and of this one work on one store under load,
// while each is replaced: two of the earlier one by two of this, and those by
// two of the earlier one again. No request fails, nothing passes over a limit,
// and what was acknowledged by any of them is known by the others.
//
// It runs as make upgrade, which builds the earlier one; go test alone puts this
// commit in its place, so that what the test itself needs is always tested.
func TestUpgrade(t *testing.T) {
	old := *earlier
	if old == "" {
		old = os.Args[0]
	}
	t.Run("redis", func(t *testing.T) {
		testUpgrade(t, old, redistest.Start(t).URL(), postgrestest.Start(t).Database(t))
	})
	t.Run("postgres", func(t *testing.T) {
		database := postgrestest.Start(t).Database(t)
		testUpgrade(t, old, database, database)
	})
}

func testUpgrade(t *testing.T, old, store, catalog string) {
	dir := t.TempDir()
	args := []string{
		"serve", "--store", store, "--catalog", catalog,
		"--policy", writeFile(t, dir, "policy.yaml", restartPolicy),
	}
	m := &migration{t: t, args: args, all: newFleet(t), bounded: map[string]*storetest.History{}}
	m.join(old)
	m.join(old)
	for _, binary := range []string{os.Args[0], os.Args[0], old, old} {
		m.join(binary)
		m.leave()
	}
	m.leave()
	m.leave()

	for name, h := range m.bounded {
		report, err := h.Report(bounded[name])
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d admissions, %.0f %% of the bound", name, len(h.Events), 100*report.Used())
	}
	last := begin(t, args...)
	for entity, n := range last.missing(t) {
		if n != m.all.spent[entity] {
			t.Errorf("%s: %d were allowed, %d are missing from the store", entity, m.all.spent[entity], n)
		}
	}
	m.all.remembered(last, 0)
	last.signal(t, syscall.SIGTERM)
	last.wait(t)
}

// bounded are limits that more is asked of than they let pass.
var bounded = map[string]sluice.Limit{
	"tokens":  sluice.MustParse("20/s burst 10"),
	"sliding": sluice.MustParse("15/s sliding"),
	"fixed":   sluice.MustParse("15/s fixed"),
}

// migration is the nodes there are, the oldest first, and what they have said.
type migration struct {
	t      *testing.T
	args   []string
	joined int
	nodes  []*process
	fleets []*fleet
	all    *fleet // what those that are gone have acknowledged

	mu      sync.Mutex
	bounded map[string]*storetest.History
}

// join adds a node, and waits until all that there are have been asked for
// everything.
func (m *migration) join(binary string) {
	m.t.Helper()
	m.joined++
	p, f := beginAs(m.t, binary, m.args...), newFleet(m.t)
	f.name, f.pause = fmt.Sprintf("node%d-", m.joined), 20*time.Millisecond
	if binary == *earlier {
		f.words = [2]*strings.Replacer{
			strings.NewReplacer(`"life":`, `"lease":`, `"rule":`, `"limit":`),
			strings.NewReplacer(`"source":"lease"`, `"source":"held"`, `"deny cache"`, `"denyCache"`, `{"name":`, `{"limit":`, `"from":"`, `"level":"`),
		}
	}
	m.nodes, m.fleets = append(m.nodes, p), append(m.fleets, f)
	if _, err := p.ask(m.t).SetSlotPlan(m.t.Context(), slotPlan); err != nil {
		m.t.Fatal(err)
	}
	f.employTakes(p)
	f.employRecords(p)
	f.employCatalog(p)
	m.employBounded(f, p)
	for _, f := range m.fleets {
		f.more(10)
	}
}

// leave ends the oldest node.
func (m *migration) leave() {
	m.t.Helper()
	p, f := m.nodes[0], m.fleets[0]
	m.nodes, m.fleets = m.nodes[1:], m.fleets[1:]
	f.stopped.Store(true)
	p.signal(m.t, syscall.SIGTERM)
	f.working.Wait()
	p.wait(m.t)
	m.all.known = append(m.all.known, f.known...)
	for bucket, n := range f.spent {
		m.all.spent[bucket] += n
	}
}

// more waits until all kinds of clients have done so much more.
func (f *fleet) more(times int) {
	f.t.Helper()
	f.mu.Lock()
	before := maps.Clone(f.done)
	f.mu.Unlock()
	eventually(f.t, fmt.Sprintf("%d times more each of %v", times, f.kinds), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, kind := range f.kinds {
			if f.done[kind] < before[kind]+times && !f.t.Failed() {
				return false
			}
		}
		return true
	})
}

// employBounded has clients take more than the limits let pass, and notes what
// passed when.
func (m *migration) employBounded(f *fleet, p *process) {
	for name, limit := range bounded {
		take := client.Take{Entity: "all nodes", Resource: name, Limits: map[string]sluice.Limit{name: limit}}
		f.employ(name, 2, func(int) func(int) error {
			c := f.api(p)
			return func(int) error {
				called := time.Now().UnixMicro()
				d, err := c.Take(f.t.Context(), take)
				if err != nil || !d.Allowed {
					return err
				}
				if d.Source == sluice.Degraded {
					return fmt.Errorf("the answer came without the store: %+v", d)
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.bounded[name] == nil {
					m.bounded[name] = &storetest.History{}
				}
				m.bounded[name].Add(called, time.Now().UnixMicro(), d.Granted.Thousandths())
				return nil
			}
		})
	}
}
