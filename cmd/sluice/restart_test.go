package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/schedule"
)

const restartPolicy = `
version: 1
limits: {everything: {per: ip, limit: 10/day burst 1000000}}
system: {limit: {all: 10/day burst 1000000}}
degraded: {timeout: 10s} # a slow machine is no outage
`

// most is how many takes can be under way at once in these tests, times what
// the dearest costs.
const most = 100

// A server that is killed while it works comes back with what it has
// acknowledged. What that means depends on where it is kept:
//
//   - What is in the database (entities, tiers, limits, overrides, keys, slots,
//     stored responses) is all there, each slot once and as it was given.
//   - Buckets, leases and request ids in memory come back as of the snapshot,
//     which is written every 10 s: takes since then are forgotten, and nothing
//     else is.
func TestKilledWithASnapshot(t *testing.T) {
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "buckets")
	args := []string{
		"serve", "--store", "memory:" + snapshot, "--catalog", filepath.Join(dir, "sluice.db"),
		"--policy", writeFile(t, dir, "policy.yaml", restartPolicy),
	}
	p, f, since := inUse(t, args)
	f.under(5)
	mark := time.Now()
	written := time.Time{}
	type moment struct {
		at    time.Time
		spent map[string]int
	}
	var moments []moment
	eventually(t, "a snapshot that began after now", func() bool {
		moments = append(moments, moment{time.Now(), f.spentSoFar()})
		if info, err := os.Stat(snapshot); err == nil {
			written = info.ModTime()
		}
		return written.After(mark.Add(time.Second))
	})
	var safe map[string]int // what was spent a good while before the snapshot was there
	for _, m := range moments {
		if m.at.Before(written.Add(-time.Second)) {
			safe = m.spent
		}
	}
	f.employRecords(p)
	f.employCatalog(p)
	f.under(10)
	f.crashed.Store(true)
	p.kill(t)
	f.working.Wait()

	again := begin(t, args...)
	findTraces(t, again.ask(t), since)
	for entity, n := range again.missing(t) {
		if n < safe[entity] {
			t.Errorf("%s: %d were taken before the snapshot, and only %d are missing after the restart", entity, safe[entity], n)
		}
		if n > f.spent[entity]+most {
			t.Errorf("%s: %d were taken, and %d are missing", entity, f.spent[entity], n)
		}
	}
	f.remembered(again, most)
	again.signal(t, syscall.SIGTERM)
	again.wait(t)
}

// inUse is a server with traces of its use since a moment, and callers that go
// on to take.
func inUse(t *testing.T, args []string) (p *process, f *fleet, since time.Time) {
	t.Helper()
	p = begin(t, args...)
	c := p.ask(t)
	if _, err := c.SetSlotPlan(t.Context(), slotPlan); err != nil {
		t.Fatal(err)
	}
	since = time.Now()
	leaveTraces(t, c)
	f = newFleet(t)
	f.pause = 10 * time.Millisecond
	f.employTakes(p)
	return p, f, since
}

// On Redis and PostgreSQL nothing is forgotten that was acknowledged. Tokens
// that the killed server held ahead of need are gone for a while, so at most
// too few are left, and never too many.
func TestKilledOnRedisAndPostgres(t *testing.T) {
	dir := t.TempDir()
	args := []string{
		"serve", "--store", redistest.Start(t).URL(), "--catalog", postgrestest.Start(t).Database(t),
		"--policy", writeFile(t, dir, "policy.yaml", restartPolicy),
	}
	p, f, since := inUse(t, args)
	f.employRecords(p)
	f.employCatalog(p)
	f.under(10)
	f.crashed.Store(true)
	p.kill(t)
	f.working.Wait()

	again := begin(t, args...)
	findTraces(t, again.ask(t), since)
	for entity, n := range again.missing(t) {
		if n < f.spent[entity] {
			t.Errorf("%s: %d were taken, and only %d are missing", entity, f.spent[entity], n)
		}
		if entity == "lease" && n > f.spent[entity]+most { // leases are not taken from what is held
			t.Errorf("%s: %d were taken, and %d are missing", entity, f.spent[entity], n)
		}
	}
	f.remembered(again, most)
	again.signal(t, syscall.SIGTERM)
	again.wait(t)
}

func (f *fleet) spentSoFar() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.spent)
}

// missing is what is not in the buckets of those that take.
func (p *process) missing(t *testing.T) map[string]int {
	t.Helper()
	c, missing := p.ask(t), map[string]int{}
	for _, entity := range []string{"take", "anew", "batch", "lease"} {
		d, err := c.Peek(t.Context(), client.Take{Entity: entity})
		if err != nil {
			t.Fatal(err)
		}
		missing[entity] = capacity - int(d.Results[0].Free.Thousandths()/sluice.Token) // what the killed one held is not free
	}
	return missing
}

var (
	tracedTake  = client.Take{Entity: "traced", Resource: "take", ID: "only-once", Cost: sluice.Tokens(25)}
	tracedLease = client.Take{Entity: "traced", Resource: "lease", ID: "still-open", Cost: sluice.Tokens(5), Keep: time.Hour}
)

// leaveTraces takes once, with an id, and leaves a lease open.
func leaveTraces(t *testing.T, c *client.Client) {
	t.Helper()
	if d, err := c.Take(t.Context(), tracedTake); err != nil || !d.Allowed || d.Repeated {
		t.Fatalf("%+v, %v", d, err)
	}
	lease, d, err := c.Acquire(t.Context(), tracedLease)
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := lease.Adjust(t.Context(), sluice.LimitCost{Limit: "all", Cost: sluice.Tokens(7)}); err != nil {
		t.Fatal(err)
	}
}

// findTraces checks that the take is known by its id, as long as ids are
// known, and that the lease is open, at its adjusted cost.
func findTraces(t *testing.T, c *client.Client, since time.Time) {
	t.Helper()
	if time.Since(since) < 50*time.Second {
		if d, err := c.Take(t.Context(), tracedTake); err != nil || !d.Allowed || !d.Repeated {
			t.Errorf("the take again: %+v, %v", d, err)
		}
	}
	left := func(resource string) int {
		t.Helper()
		d, err := c.Peek(t.Context(), client.Take{Entity: "traced", Resource: resource})
		if err != nil {
			t.Fatal(err)
		}
		return int(d.Results[0].Remaining.Thousandths() / sluice.Token)
	}
	if n := left("take"); n != capacity-25 {
		t.Errorf("%d are left after a take of 25", n)
	}
	if n := left("lease"); n != capacity-7 {
		t.Errorf("%d are left while the lease is open", n)
	}
	if lease, d, err := c.Acquire(t.Context(), tracedLease); err != nil || lease == nil || !d.Repeated {
		t.Errorf("the lease again: %+v, %v", d, err)
	}
	if _, err := c.Lease(tracedLease.ID).Commit(t.Context(), sluice.LimitCost{Limit: "all", Cost: sluice.Tokens(4)}); err != nil {
		t.Errorf("committing the lease: %v", err)
	}
	if n := left("lease"); n != capacity-4 {
		t.Errorf("%d are left after the lease", n)
	}
}

// A snapshot that is damaged is set aside and reported, and the server starts
// with full buckets. Its database is not concerned.
func TestDamagedSnapshot(t *testing.T) {
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "buckets")
	args := []string{
		"serve", "--store", "memory:" + snapshot, "--catalog", filepath.Join(dir, "sluice.db"),
		"--policy", writeFile(t, dir, "policy.yaml", restartPolicy), "--admin-listen", "127.0.0.1:0",
	}
	p := begin(t, args...)
	leaveTraces(t, p.ask(t))
	if _, err := p.ask(t).PutEntity(t.Context(), catalog.Entity{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	p.wait(t)
	whole, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"cut off":   string(whole[:len(whole)/2]),
		"changed":   strings.Replace(string(whole), "traced", "treced", 1),
		"empty":     "",
		"not it":    "hello\n",
		"unchanged": string(whole),
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, dir, "buckets", damaged)
			p := begin(t, args...)
			d, err := p.ask(t).Peek(t.Context(), client.Take{Entity: "traced", Resource: "take"})
			if err != nil {
				t.Fatal(err)
			}
			want, count := capacity, "1"
			if name == "unchanged" {
				want, count = capacity-25, "0"
			}
			if n := int(d.Results[0].Remaining.Thousandths() / sluice.Token); n != want {
				t.Errorf("%d are left, want %d", n, want)
			}
			if _, text := p.get(t, "/metrics"); !strings.Contains(text, "\nsluice_memory_damaged_snapshots_total "+count+"\n") {
				t.Errorf("the metrics do not count %s", count)
			}
			if _, err := p.ask(t).Entity(t.Context(), "acme"); err != nil {
				t.Errorf("the entity: %v", err)
			}
			p.kill(t)
			aside, err := os.ReadFile(snapshot + ".damaged")
			if name == "unchanged" {
				return
			}
			if err != nil || string(aside) != damaged {
				t.Errorf("set aside was %.20q, %v", aside, err)
			}
			said := ""
			for _, l := range p.logged(t) {
				if l.Level == "ERROR" {
					said += l.text
				}
			}
			if !strings.Contains(said, "snapshot is damaged") || !strings.Contains(said, "buckets.damaged") {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// Several servers of one machine may use one database file: what one of them
// has acknowledged all know, and none minds if another is killed. Their
// buckets are their own.
func TestTwoServersOnOneFile(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--store", "memory", "--catalog", filepath.Join(dir, "sluice.db"), "--policy", writeFile(t, dir, "policy.yaml", restartPolicy)}
	servers := [2]*process{begin(t, args...), begin(t, args...)}
	if _, err := servers[0].ask(t).SetSlotPlan(t.Context(), slotPlan); err != nil {
		t.Fatal(err)
	}
	var fleets [2]*fleet
	for i, p := range servers {
		fleets[i] = newFleet(t)
		fleets[i].employAssigner(p, i)
	}
	fleets[0].under(20)
	fleets[1].under(20)
	for _, what := range fleets[0].soFar() {
		if _, err := servers[1].ask(t).Slot(t.Context(), what[1]); err != nil {
			t.Errorf("%v, of which the other server knows: %v", what, err)
		}
	}
	fleets[0].crashed.Store(true)
	servers[0].kill(t)
	fleets[0].working.Wait()
	fleets[1].under(len(fleets[1].soFar()) + 20)
	fleets[1].stopped.Store(true)
	servers[1].signal(t, syscall.SIGTERM)
	fleets[1].working.Wait()
	servers[1].wait(t)

	again := begin(t, args...)
	fleets[1].known = append(fleets[1].known, fleets[0].known...)
	fleets[1].remembered(again, 1)
}

// employAssigner has one client assign slots.
func (f *fleet) employAssigner(p *process, server int) {
	ctx := f.t.Context()
	f.employ("both", 1, func(int) func(int) error {
		c := f.api(p)
		return func(i int) error {
			name := fmt.Sprintf("server-%d-%d", server, i)
			slot, err := c.AssignSlot(ctx, schedule.Request{Event: name, Plan: "jobs"})
			if err != nil {
				return err
			}
			f.acknowledged("slot", name, slot.Scheduled.Format(time.RFC3339Nano))
			return nil
		}
	})
}

// soFar is what was acknowledged until now.
func (f *fleet) soFar() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.known)
}
