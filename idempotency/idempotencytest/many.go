package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func (f *fixture) figures() {
	ctx := context.Background()
	var replays []idempotency.Replayed
	for i, tenant := range []string{"acme", "bond", "acme", "acme"} {
		c := claim(fmt.Sprint("k", i), 1, 7)
		c.Scope.Tenant = tenant
		f.wants(c, idempotency.Claimed)
		f.finish(c, "result", nil)
		replays = append(replays, idempotency.Replayed{
			ID: c.Scope.ID(), Tenant: tenant, N: int64(i + 1), At: f.clock.Now().Add(time.Duration(i) * time.Second),
		})
	}
	gone := claim("gone", 1, 7)
	replays = append(replays, idempotency.Replayed{ID: gone.Scope.ID(), Tenant: "acme", N: 1, At: f.clock.Now()})
	note := &idempotency.Activity{
		Counts: []idempotency.Count{
			{Everyone: true, Name: "replays", N: 5}, {Everyone: true, Name: "bytes_stored", N: 1 << 40},
			{Tenant: "acme", Name: "replays", N: 3}, {Tenant: "", Name: "replays", N: 2},
			{Everyone: true, Name: "of_a_newer_node", N: 1},
		},
		Replays: replays[:3],
	}
	f.is("note", f.store.Note(ctx, note), nil)
	note.Replays = replays[2:]
	f.is("note", f.store.Note(ctx, note), nil)

	for _, test := range []struct {
		q    idempotency.Query
		want idempotency.Stats
	}{
		{idempotency.Query{Everyone: true}, idempotency.Stats{Replays: 10, BytesStored: 2 << 40}},
		{idempotency.Query{Tenant: "acme"}, idempotency.Stats{Replays: 6}},
		{idempotency.Query{Tenant: ""}, idempotency.Stats{Replays: 4}},
		{idempotency.Query{Tenant: "nobody"}, idempotency.Stats{}},
	} {
		got, err := f.store.Stats(ctx, test.q)
		f.is("stats", err, nil)
		f.same(fmt.Sprintf("stats of %+v", test.q), got, test.want)
	}
	recent := func(q idempotency.Query) (keys []string) {
		f.Helper()
		records, err := f.store.Recent(ctx, q)
		f.is("recent", err, nil)
		for _, r := range records {
			keys = append(keys, fmt.Sprintf("%s %s×%d", r.Scope.Tenant, r.Scope.Key, r.Replays))
		}
		return keys
	}
	f.same("recent", recent(idempotency.Query{Everyone: true, Max: 10}), "[acme k3×4 acme k2×6 bond k1×2 acme k0×1]")
	f.same("recent", recent(idempotency.Query{Everyone: true, Max: 2}), "[acme k3×4 acme k2×6]")
	f.same("recent", recent(idempotency.Query{Tenant: "bond", Max: 10}), "[bond k1×2]")
	f.looks(gone, idempotency.ErrNotFound)
	forgotten := claim("k3", 1, 7)
	f.forgets(forgotten, nil)
	f.same("recent", recent(idempotency.Query{Tenant: "acme", Max: 2}), "[acme k2×6 acme k0×1]")
}

func (f *fixture) sweep(expires bool) {
	ctx := context.Background()
	const n = 50
	for i := range n {
		c := claim(fmt.Sprint(i), 1, 7)
		f.wants(c, idempotency.Claimed)
		if i%2 == 0 {
			f.finish(c, "result", nil)
		}
	}
	f.clock.Advance(ttl / 2)
	kept := claim("kept", 1, 7)
	f.wants(kept, idempotency.Claimed)
	f.finish(kept, "kept", nil)
	swept, err := f.store.Sweep(ctx, 20)
	f.is("sweep", err, nil)
	f.same("swept before anything expired", swept, 0)
	f.clock.Advance(ttl / 2)
	var counts []int
	for range 4 {
		swept, err := f.store.Sweep(ctx, 20)
		f.is("sweep", err, nil)
		counts = append(counts, swept)
	}
	if !expires {
		f.same("swept", counts, "[20 20 10 0]")
	}
	f.same("result", string(f.looks(kept, nil).Result), "kept")
	f.looks(claim("0", 1, 7), idempotency.ErrNotFound)
}

func (f *fixture) race() {
	const n = 32
	round := func(key string, want idempotency.Verdict) {
		f.Helper()
		var wg sync.WaitGroup
		var held atomic.Int64
		for i := range n {
			wg.Go(func() {
				c := claim(key, byte(i+1), 7)
				c.Token[1] = byte(want)
				a, err := f.store.Claim(context.Background(), c)
				switch {
				case err != nil:
					f.Error(err)
				case a.Verdict == want:
					held.Add(1)
				case a.Verdict != idempotency.Busy:
					f.Errorf("claim: %s", a.Verdict)
				}
			})
		}
		wg.Wait()
		f.same(fmt.Sprintf("number of those with verdict %s", want), held.Load(), 1)
	}
	for i := range 5 {
		key := fmt.Sprint("race", i)
		round(key, idempotency.Claimed)
		f.clock.Advance(life)
		round(key, idempotency.TakenOver)
		f.clock.Advance(ttl)
		round(key, idempotency.Claimed)
	}
}

// agree does the same at random to the store and to the one in memory, which
// decides by the reference.
func (f *fixture) agree() {
	reference, err := idempotency.NewMemory(idempotency.MemoryConfig{Clock: f.clock.Now})
	f.is("open", err, nil)
	random := rand.New(rand.NewPCG(3, 4))
	ctx := context.Background()
	show := func(r idempotency.Record, err error) string {
		for _, known := range []error{idempotency.ErrLost, idempotency.ErrNotFound} {
			if errors.Is(err, known) {
				return known.Error()
			}
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%v %s %t %x %x %d %d %s %d %d %d %d %d %q", r.Scope, r.State, r.Crashed, r.Fingerprint[:1], r.Token[:1], r.Attempts,
			r.Started.UnixMicro(), r.Life, r.ClaimEnds.UnixMicro(), max(0, r.Finished.UnixMicro()), r.Expires.UnixMicro(), r.Replays, r.Size, r.Result)
	}
	for step := range 600 {
		c := claim(string(rune('a'+random.IntN(3))), byte(1+random.IntN(4)), byte(7+random.IntN(8)/7))
		c.TakeOver = random.IntN(3) > 0
		c.Life = time.Duration(1+random.IntN(3)) * life / 2
		id, result := c.Scope.ID(), []byte(fmt.Sprint("result ", step))
		ending := idempotency.State(1 + random.IntN(2))
		do := random.IntN(9)
		if random.IntN(100) == 0 {
			do = 9
		}
		try := func(s idempotency.Store) string {
			switch do {
			case 0, 1, 2:
				a, err := s.Claim(ctx, c)
				return a.Verdict.String() + " " + show(a.Record, err)
			case 3:
				return show(idempotency.Record{}, s.Extend(ctx, id, c.Token, c.Life))
			case 4, 5:
				return show(idempotency.Record{}, s.Finish(ctx, &idempotency.Finish{ID: id, Token: c.Token, State: ending, Result: result, TTL: ttl}))
			case 6:
				return show(idempotency.Record{}, s.Release(ctx, id, c.Token))
			case 7:
				return show(s.Lookup(ctx, id))
			case 9:
				_, err := s.ForgetAll(ctx, idempotency.Whose{Tenant: "acme"}, 100)
				return show(idempotency.Record{}, err)
			}
			return show(idempotency.Record{}, s.Forget(ctx, id))
		}
		if do == 8 && random.IntN(20) > 0 {
			do = 7 // forgetting is rare, or nothing gets old
		}
		if got, want := try(f.store), try(reference); got != want {
			f.Fatalf("step %d (%d on %s):\ngot  %s\nwant %s", step, do, c.Scope.Key, got, want)
		}
		switch random.IntN(10) {
		case 0:
			f.clock.Advance(life/2 + time.Duration(random.IntN(3)-1)*time.Microsecond)
		case 1:
			f.clock.Advance(time.Duration(random.Int64N(int64(life))).Truncate(time.Microsecond))
		case 2:
			f.clock.Advance(-time.Duration(random.Int64N(int64(life))).Truncate(time.Microsecond))
		case 3:
			if random.IntN(15) == 0 {
				f.clock.Advance(ttl)
			}
		}
	}
}
