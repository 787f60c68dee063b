package catalog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

func TestAnswersAreReadAgainAfterTheirTime(t *testing.T) {
	b := open(t, catalog.Config{TTL: 60 * time.Second})
	b.resolve("alice")
	before := b.store.resolves.Load()
	b.clock.Set(59 * time.Second)
	b.resolve("alice")
	if n := b.store.resolves.Load() - before; n != 0 {
		t.Errorf("read %d times within its time", n)
	}
	b.clock.Set(61 * time.Second)
	b.resolve("alice")
	if n := b.store.resolves.Load() - before; n != 1 {
		t.Errorf("read %d times after its time, want once", n)
	}
	b.no(b.c.Flush(b.ctx))
	b.resolve("alice")
	if n := b.store.resolves.Load() - before; n != 2 {
		t.Errorf("read %d times after it was told to forget, want twice", n)
	}
}

func TestOldLimitsAreBetterThanNone(t *testing.T) {
	b := open(t, catalog.Config{})
	b.set(catalog.Scope{}, "rpm", "10/minute")
	b.resolve("alice")
	_, clear, err := b.e.CreateKey(b.ctx, catalog.Key{Entity: "alice"})
	b.no(err)
	revoked, revokedClear, err := b.e.CreateKey(b.ctx, catalog.Key{Entity: "alice"})
	b.no(err)
	for _, k := range []string{clear, revokedClear} {
		_, err := b.c.VerifyKey(b.ctx, k)
		b.no(err)
	}
	b.store.away.Store(true)
	b.eventually("it does not watch", func() bool { return !b.c.Stats().Watching })
	b.clock.Set(30 * time.Second) // beyond the second that is trusted without a watch
	if r := b.resolve("alice"); len(r.Applied) != 1 {
		t.Errorf("while the store is away: %+v", r.Applied)
	}
	if _, err := b.c.VerifyKey(b.ctx, clear); err != nil {
		t.Errorf("a known key while the store is away: %v", err)
	}
	_, err = b.e.RevokeKey(b.ctx, revoked.ID)
	b.no(err)
	if _, err := b.c.VerifyKey(b.ctx, revokedClear); err == nil {
		t.Error("a key that this node has revoked is good while the store is away")
	}
	b.clock.Set(3 * time.Minute)
	if _, err := b.c.VerifyKey(b.ctx, clear); !errors.Is(err, sluice.ErrUnavailable) {
		t.Errorf("a known key after minutes: got error %v, want that the store is away", err)
	}
	if r := b.resolve("alice"); len(r.Applied) != 1 {
		t.Errorf("after minutes: %+v", r.Applied)
	}
	if _, err := b.c.Resolve(b.ctx, subject("bob", "chat")); !errors.Is(err, sluice.ErrUnavailable) {
		t.Errorf("somebody unknown: got error %v", err)
	}
	if s := b.c.Stats().Resolutions; s.Stale == 0 || s.Failures == 0 {
		t.Errorf("stats: %+v", s)
	}
	b.clock.Set(2 * time.Hour)
	if _, err := b.c.Resolve(b.ctx, subject("alice", "chat")); !errors.Is(err, sluice.ErrUnavailable) {
		t.Errorf("after hours: got error %v", err)
	}
	b.store.away.Store(false)
	b.eventually("all is well again", func() bool {
		_, err := b.c.Resolve(b.ctx, subject("alice", "chat"))
		return err == nil && b.c.Stats().Watching
	})
}

func TestMemoryIsBounded(t *testing.T) {
	b := open(t, catalog.Config{Entries: 128})
	for i := range 300 {
		b.resolve(fmt.Sprint("entity", i))
	}
	if s := b.c.Stats().Resolutions; s.Entries > 128 || s.Evicted < 150 {
		t.Errorf("stats: %+v, want at most 128 entries", s)
	}
}

func TestWarmAnswersAllocateNothing(t *testing.T) {
	b := family(t)
	demands := make([]sluice.Demand, 0, sluice.MaxDemands)
	s := subject("alice", "chat")
	cost := sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(40)}
	if n := testing.AllocsPerRun(1000, func() {
		r, err := b.c.Resolve(b.ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		demands = r.Demands(demands[:0], "alice", cost)
	}); n != 0 {
		t.Errorf("%.1f allocations for a warm answer, want none", n)
	}
	if len(demands) != 4 || demands[1].Cost.Thousandths() != 40*sluice.Token {
		t.Errorf("demands: %+v", demands)
	}
}

// family is alice, with two limits, in a team and a company with one each.
func family(t testing.TB) *bench {
	b := open(t, catalog.Config{})
	for _, e := range []catalog.Entity{{ID: "company"}, {ID: "team", Parent: "company", Cascade: true}, {ID: "alice", Parent: "team", Cascade: true}} {
		_, err := b.e.CreateEntity(b.ctx, e)
		b.no(err)
	}
	b.set(catalog.Scope{Entity: "alice"}, "rpm", "10/hour", "tpm", "1000/hour")
	b.set(catalog.Scope{Entity: "team"}, "rpm", "3/hour")
	b.set(catalog.Scope{Entity: "company"}, "rpm", "100/hour")
	return b
}

func BenchmarkResolve(b *testing.B) {
	at := family(b)
	demands := make([]sluice.Demand, 0, sluice.MaxDemands)
	s := subject("alice", "chat")
	b.ReportAllocs()
	for b.Loop() {
		r, err := at.c.Resolve(at.ctx, s)
		if err != nil {
			b.Fatal(err)
		}
		demands = r.Demands(demands[:0], "alice")
	}
}

func BenchmarkVerifyKey(b *testing.B) {
	at := family(b)
	_, clear, err := at.e.CreateKey(at.ctx, catalog.Key{Entity: "alice"})
	at.no(err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := at.c.VerifyKey(at.ctx, clear); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkColdResolve(b *testing.B) {
	at := family(b)
	s := subject("alice", "chat")
	b.ReportAllocs()
	for b.Loop() {
		at.no(at.c.Flush(at.ctx))
		if _, err := at.c.Resolve(at.ctx, s); err != nil {
			b.Fatal(err)
		}
	}
}
