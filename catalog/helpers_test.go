package catalog_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

var by = catalog.By{Actor: "anna", From: "192.0.2.1", Reason: "test"}

// shaky is a real store that can be away, and counts how often it is asked.
type shaky struct {
	catalog.Store
	away     atomic.Bool
	resolves atomic.Int64
	totals   []int // how many were asked for at once
}

func (s *shaky) Resolve(ctx context.Context, q catalog.ResolveQuery) ([]catalog.Record, error) {
	s.resolves.Add(1)
	if s.away.Load() {
		return nil, sluice.ErrUnavailable
	}
	return s.Store.Resolve(ctx, q)
}

func (s *shaky) Totals(ctx context.Context, namespace string, series []catalog.Series) ([]catalog.UsageRow, error) {
	s.totals = append(s.totals, len(series))
	return s.Store.Totals(ctx, namespace, series)
}

func (s *shaky) Find(ctx context.Context, kind catalog.Kind, id string) (catalog.Record, error) {
	if s.away.Load() {
		return catalog.Record{}, sluice.ErrUnavailable
	}
	return s.Store.Find(ctx, kind, id)
}

func (s *shaky) Watch(ctx context.Context, changed func(catalog.Changed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	if s.away.Load() {
		return sluice.ErrUnavailable
	}
	lost := make(chan error, 1)
	go func() { lost <- s.Store.Watch(ctx, changed) }()
	for {
		select {
		case err := <-lost:
			return err
		case <-tick.C:
			if s.away.Load() {
				cancel()
				<-lost
				return sluice.ErrUnavailable
			}
		}
	}
}

// bench is a catalog on a file of its own, with a clock that can be moved.
type bench struct {
	t     testing.TB
	ctx   context.Context
	store *shaky
	c     *catalog.Catalog
	e     *catalog.Editor
	clock testclock.Ahead
}

func open(t testing.TB, config catalog.Config) *bench {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, ctx: t.Context(), store: &shaky{Store: catalogstore.New(db)}}
	config.Store = b.store
	config.Clock = b.clock.Now
	b.c, err = catalog.Open(b.ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.c.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b.e = b.c.Edit(catalog.DefaultNamespace, by)
	b.eventually("it watches", func() bool { return b.c.Stats().Watching })
	return b
}

func (b *bench) eventually(what string, done func() bool) {
	b.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("not after a minute: %s", what)
		}
	}
}

func (b *bench) no(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func limits(pairs ...string) catalog.Limits {
	l := catalog.Limits{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = catalog.Setting{Limit: sluice.MustParse(pairs[i+1])}
	}
	return l
}

func (b *bench) set(s catalog.Scope, pairs ...string) {
	b.t.Helper()
	_, err := b.e.SetLimits(b.ctx, s, limits(pairs...), 0)
	b.no(err)
}

func subject(entity, resource string) catalog.Subject {
	return catalog.Subject{Namespace: catalog.DefaultNamespace, Entity: entity, Resource: resource}
}

func (b *bench) resolve(entity string) *catalog.Resolution {
	b.t.Helper()
	r, err := b.c.Resolve(b.ctx, subject(entity, "chat"))
	b.no(err)
	return r
}
