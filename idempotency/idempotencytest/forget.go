package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/idempotency"
)

// crowd are tenants whose names are easily taken for one another's.
var crowd = []string{
	"acme", "acme/alice", "acme/alice2", "acme/alice/", "acme/alice/x", "acme/", "acme//alice", "acme/\x00", "acme/\xff", `acme/\2f`, "acme/%",
	"acme0", "acme.", "acme-eu/alice", "acme\x00/alice", "ACME/alice", "acm", "/acme", "", "bolt", "bolt/acme", `\acme/alice`, "*",
}

// settle makes records of a tenant in every state, and notes figures and
// replays. It answers their claims.
func (f *fixture) settle(tenant string) []*idempotency.Claim {
	f.Helper()
	var all []*idempotency.Claim
	note := &idempotency.Activity{Counts: []idempotency.Count{{Tenant: tenant, Name: "replays", N: 3}, {Everyone: true, Name: "replays", N: 3}}}
	for i, key := range []string{"running", "done", "failed"} {
		c := claim(key, byte(i+1), 7)
		c.Scope.Tenant = tenant
		f.wants(c, idempotency.Claimed)
		if i > 0 {
			f.finishAs(c, idempotency.State(i), key+" of "+tenant, nil)
		}
		note.Replays = append(note.Replays, idempotency.Replayed{ID: c.Scope.ID(), Tenant: tenant, N: 1, At: f.clock.Now()})
		all = append(all, c)
	}
	f.is("note", f.store.Note(context.Background(), note), nil)
	return all
}

// forgetAll forgets, in one step, and checks how many records it was.
func (f *fixture) forgetAll(whose idempotency.Whose, want int) {
	f.Helper()
	n, err := f.store.ForgetAll(context.Background(), whose, 1000)
	f.is("forget all", err, nil)
	f.same(fmt.Sprintf("number of records of %+v", whose), n, want)
}

// left checks that nothing is left of some tenants, and all of the others.
func (f *fixture) left(all map[string][]*idempotency.Claim, gone func(tenant string) bool) {
	f.Helper()
	ctx := context.Background()
	recent, err := f.store.Recent(ctx, idempotency.Query{Everyone: true, Max: 1000})
	f.is("recent", err, nil)
	seen := map[string]int{}
	for _, r := range recent {
		seen[r.Scope.Tenant]++
	}
	for tenant, claims := range all {
		count := 3
		if gone(tenant) {
			count = 0
		}
		for i, c := range claims {
			if count == 0 {
				f.looks(c, idempotency.ErrNotFound)
				continue
			}
			r := f.looks(c, nil)
			if i > 0 && string(r.Result) != c.Scope.Key+" of "+tenant || r.State != idempotency.State(i) || r.Replays != 1 {
				f.Errorf("%q: a record is now %+v", tenant, r)
			}
		}
		stats, err := f.store.Stats(ctx, idempotency.Query{Tenant: tenant})
		f.is("stats", err, nil)
		f.same(fmt.Sprintf("replays of %q", tenant), stats.Replays, count)
		own, err := f.store.Recent(ctx, idempotency.Query{Tenant: tenant, Max: 1000})
		f.is("recent", err, nil)
		f.same(fmt.Sprintf("recent replays of %q", tenant), len(own), count)
		f.same(fmt.Sprintf("recent replays of %q among all", tenant), seen[tenant], count)
	}
	stats, err := f.store.Stats(ctx, idempotency.Query{Everyone: true})
	f.is("stats", err, nil)
	f.same("replays of everyone", stats.Replays, 3*len(all))
}

func (f *fixture) crowd() map[string][]*idempotency.Claim {
	all := map[string][]*idempotency.Claim{}
	for _, tenant := range crowd {
		all[tenant] = f.settle(tenant)
	}
	return all
}

func (f *fixture) forgetTenant() {
	all := f.crowd()
	f.forgetAll(idempotency.Whose{Tenant: "nobody"}, 0)
	f.forgetAll(idempotency.Whose{Tenant: "acme/bob"}, 0)
	var gone []string
	for _, tenant := range []string{"acme/alice", "acme", "acme/\x00", "acme/\xff", "", `\acme/alice`} {
		f.forgetAll(idempotency.Whose{Tenant: tenant}, 3)
		f.forgetAll(idempotency.Whose{Tenant: tenant}, 0)
		gone = append(gone, tenant)
		f.left(all, func(t string) bool { return slices.Contains(gone, t) })
	}
}

func (f *fixture) forgetNamespace() {
	all := f.crowd()
	acme, bolt := idempotency.Whose{Tenant: "acme", Below: true}, idempotency.Whose{Tenant: "bolt", Below: true}
	f.forgetAll(idempotency.Whose{Tenant: "nobody", Below: true}, 0)
	f.forgetAll(acme, 3*11)
	f.forgetAll(acme, 0)
	f.left(all, acme.Has)
	f.forgetAll(bolt, 3*2)
	f.left(all, func(tenant string) bool { return acme.Has(tenant) || bolt.Has(tenant) })

	// The figures of tenants whose records have long expired go as well.
	late := f.settle("core/late")
	for _, c := range late {
		f.forgets(c, nil)
	}
	f.forgetAll(idempotency.Whose{Tenant: "core", Below: true}, 0)
	stats, err := f.store.Stats(context.Background(), idempotency.Query{Tenant: "core/late"})
	f.is("stats", err, nil)
	f.same("figures", stats, idempotency.Stats{})
}

func (f *fixture) forgetRunning() {
	first, second := claim("k", 1, 7), claim("k", 2, 8)
	acme := idempotency.Whose{Tenant: "acme"}
	f.wants(first, idempotency.Claimed)
	f.forgetAll(acme, 1)
	f.extends(first, idempotency.ErrLost)
	f.finish(first, "old", idempotency.ErrLost)
	f.releases(first, idempotency.ErrLost)
	f.looks(first, idempotency.ErrNotFound)

	f.wants(second, idempotency.Claimed) // another request, too
	f.finish(first, "old", idempotency.ErrLost)
	f.finish(second, "new", nil)
	f.same("result", string(f.looks(second, nil).Result), "new")
	f.forgetAll(acme, 1)

	// One that crashed, and one that was taken over.
	f.wants(first, idempotency.Claimed)
	f.clock.Advance(life)
	f.forgetAll(acme, 1)
	f.wants(first, idempotency.Claimed)
	f.clock.Advance(life)
	over := claim("k", 3, 7)
	f.wants(over, idempotency.TakenOver)
	f.forgetAll(acme, 1)
	f.finish(over, "new", idempotency.ErrLost)
	f.forgetAll(acme, 0)
}

func (f *fixture) forgetMany() {
	ctx := context.Background()
	const n = 250
	var kept []*idempotency.Claim
	for i := range n {
		for _, tenant := range []string{"acme/alice", "acme/bob"} {
			c := claim(fmt.Sprint(i), 1, 7)
			c.Scope.Tenant = tenant
			f.wants(c, idempotency.Claimed)
			if i%2 == 0 {
				f.finish(c, "result", nil)
			}
			if tenant == "acme/bob" {
				kept = append(kept, c)
			}
		}
	}
	batches := func(whose idempotency.Whose, most, times int) (counts []int) {
		f.Helper()
		for range times {
			n, err := f.store.ForgetAll(ctx, whose, most)
			f.is("forget all", err, nil)
			counts = append(counts, n)
		}
		return counts
	}
	f.same("batches", batches(idempotency.Whose{Tenant: "acme/alice"}, 100, 4), "[100 100 50 0]")
	for _, c := range kept {
		f.looks(c, nil)
	}
	f.same("batches", batches(idempotency.Whose{Tenant: "acme", Below: true}, 125, 3), "[125 125 0]")
	for _, c := range kept {
		f.looks(c, idempotency.ErrNotFound)
	}
}

func (f *fixture) forgetBusy() {
	ctx := context.Background()
	const writers, each = 4, 60
	var forgotten atomic.Bool
	var writing, forgetting sync.WaitGroup
	record := func(tenant string, w, i int) *idempotency.Claim {
		c := claim(fmt.Sprintf("%d %d", w, i), byte(w+1), 7)
		c.Scope.Tenant = tenant
		return c
	}
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				for _, tenant := range []string{"acme/alice", "bolt/alice"} {
					c := record(tenant, w, i)
					if a, err := f.store.Claim(ctx, c); err != nil || a.Verdict != idempotency.Claimed {
						f.Errorf("claim: %s, %v", a.Verdict, err)
					}
					err := f.store.Finish(ctx, &idempotency.Finish{ID: c.Scope.ID(), Token: c.Token, State: idempotency.Done, Result: []byte(c.Scope.Key), TTL: ttl})
					if err != nil && (tenant != "acme/alice" || !errors.Is(err, idempotency.ErrLost)) {
						f.Errorf("finish for %s: %v", tenant, err)
					}
				}
			}
		})
	}
	for i := range 2 {
		whose := idempotency.Whose{Tenant: "acme/alice"}
		if i == 1 {
			whose = idempotency.Whose{Tenant: "acme", Below: true}
		}
		forgetting.Go(func() {
			for !forgotten.Load() {
				if _, err := f.store.ForgetAll(ctx, whose, 7); err != nil {
					f.Errorf("forget all: %v", err)
					return
				}
			}
		})
	}
	writing.Wait()
	forgotten.Store(true)
	forgetting.Wait()
	for n := 7; n == 7; {
		var err error
		n, err = f.store.ForgetAll(ctx, idempotency.Whose{Tenant: "acme/alice"}, 7)
		f.is("forget all", err, nil)
	}
	for w := range writers {
		for i := range each {
			f.looks(record("acme/alice", w, i), idempotency.ErrNotFound)
			f.same("result", string(f.looks(record("bolt/alice", w, i), nil).Result), record("", w, i).Scope.Key)
		}
	}
}
