package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/tracing"
)

// places are where a node keeps things.
type places struct {
	store   string // memory, or the address of Redis or PostgreSQL
	catalog string // a file, or the address of PostgreSQL
	policy  string // a file; "" for the sample
	hold    bool   // hold tokens ahead of need
	alerts  catalog.Thresholds
}

// stack is everything that a node is made of, from the store up.
type stack struct {
	limiter  *sluice.Limiter
	exact    *sluice.Limiter // the same without held tokens
	catalog  *catalog.Catalog
	declares atomic.Pointer[catalog.Catalog] // the same, for the policy's watcher
	policy   *policy.Live
	activity *sluice.Activity
	slots    schedule.Store
	replays  idempotency.Store
	keeps    *idempotency.Keeper
	decides  *httplimit.Gate
	registry *prometheus.Registry
	tracing  *tracing.Tracing // nil without
	reloads  []func() error
	closers  []func() error
}

// close ends everything, the last opened first.
func (s *stack) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// open builds the stack. What was opened is closed again if something fails.
func open(ctx context.Context, p places, log *slog.Logger) (s *stack, err error) {
	s = &stack{registry: prometheus.NewRegistry(), activity: sluice.NewActivity(0)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	if s.tracing, err = tracing.Setup(ctx, tracing.Config{Log: log}); err != nil {
		return s, err
	}
	s.closers = append(s.closers, func() error {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := s.tracing.Shutdown(sending); err != nil {
			log.Warn("spans are lost", "error", err)
		}
		return nil
	})
	if err := s.openPolicy(ctx, p.policy, log); err != nil {
		return s, err
	}
	utilization, err := metrics.NewUtilization(p.alerts, log)
	if err != nil {
		return s, err
	}
	store, exact, err := s.openStore(ctx, p, utilization, log)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, store.Close)
	recorder, err := s.openCatalog(ctx, p.catalog, log)
	if err != nil {
		return s, err
	}
	takes := metrics.NewTakes()
	s.registry.MustRegister(takes, utilization)
	told := sluice.WithObserver(observers{takes, utilization, recorder, s.activity})
	store, exact = s.tracing.Store("decide", store), s.tracing.Store("decide", exact)
	s.limiter, s.exact = sluice.New(store, told), sluice.New(exact, told)
	s.registry.MustRegister(metrics.Waiting(s.limiter, s.exact))
	return s, nil
}

// observers tells several.
type observers []sluice.Observer

func (all observers) Decided(t *sluice.Take, d *sluice.Decision, err error, took time.Duration) {
	for _, o := range all {
		o.Decided(t, d, err, took)
	}
}

func (all observers) Waited(t *sluice.Take, waited time.Duration, served bool) {
	for _, o := range all {
		o.Waited(t, waited, served)
	}
}

func (all observers) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	for _, o := range all {
		o.Consumed(k, l, c)
	}
}

func (s *stack) openPolicy(ctx context.Context, path string, log *slog.Logger) error {
	if path == "" {
		sample, err := policy.Parse("sample policy", samplePolicy)
		if err != nil {
			return err
		}
		s.policy = policy.Fixed(sample)
		s.registry.MustRegister(metrics.Policy(s.policy))
		return nil
	}
	live, err := policy.Watch(ctx, path, policy.Options{Log: log, Prepare: func(p *policy.Policy) error {
		// Before it takes the place of the one before, so that no request goes
		// by a set that the catalog does not know.
		if known := s.declares.Load(); known != nil {
			return declare(known, p)
		}
		return nil // the catalog is told when it is open
	}})
	if err != nil {
		return err
	}
	s.policy = live
	s.registry.MustRegister(metrics.Policy(live))
	s.closers = append(s.closers, func() error { live.Close(); return nil })
	return nil
}

// declare tells the catalog what a policy says, for the levels at which
// nothing is stored.
func declare(c *catalog.Catalog, p *policy.Policy) error {
	if err := c.Declare(namespaceOf(p), p.Declaration("policy")); err != nil {
		return fmt.Errorf("the policy's limits cannot be declared: %w", err)
	}
	return nil
}

func namespaceOf(p *policy.Policy) string {
	if p.Namespace == "" {
		return catalog.DefaultNamespace
	}
	return p.Namespace
}

// openStore opens what keeps the buckets. A shared store gets failover and
// held tokens in front; exact is the one without held tokens.
func (s *stack) openStore(ctx context.Context, p places, alarms *metrics.Utilization, log *slog.Logger) (store, exact sluice.Store, err error) {
	if p.store == "memory" || strings.HasPrefix(p.store, "memory:") {
		store, err := memory.Open(memory.Config{Snapshot: strings.TrimPrefix(strings.TrimPrefix(p.store, "memory"), ":"), Log: log})
		if err != nil {
			return nil, nil, err
		}
		s.registry.MustRegister(metrics.Memory(store))
		return store, store, nil
	}
	shared, err := openShared(ctx, p.store, log)
	if err != nil {
		return nil, nil, err
	}
	switch store := shared.(type) {
	case *postgres.Store:
		s.registry.MustRegister(metrics.Postgres(store))
	case *redis.Store:
		s.registry.MustRegister(metrics.Redis(store))
	}
	calls := metrics.NewCalls(s.tracing.Store("store", shared))
	s.registry.MustRegister(calls)
	config := s.policy.Policy().Failover()
	config.Log = log
	guarded, err := failover.New(calls, config)
	if err != nil {
		return nil, nil, errors.Join(err, shared.Close())
	}
	s.registry.MustRegister(metrics.Failover(guarded))
	if !p.hold {
		return guarded, guarded, nil
	}
	ahead, err := advance.New(guarded, advance.Config{Log: log, Heard: alarms.Heard})
	if err != nil {
		return nil, nil, errors.Join(err, guarded.Close())
	}
	s.registry.MustRegister(metrics.Advance(ahead))
	return ahead, guarded, nil
}

func openShared(ctx context.Context, address string, log *slog.Logger) (sluice.Store, error) {
	scheme, _, _ := strings.Cut(address, ":")
	switch {
	case strings.HasPrefix(scheme, "redis"):
		return redis.Open(ctx, redis.Config{Address: address, Log: log})
	case isPostgres(address):
		return postgres.Open(ctx, postgres.Config{Address: address, Log: log})
	}
	return nil, &usageError{fmt.Sprintf("--store %q: want memory, memory:FILE, or an address that begins with redis://, rediss://, redis+sentinel://, redis+cluster:// or postgres://", redacted(address))}
}

func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// redacted is an address without its password.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return address[:min(len(address), 8)] + "…"
}

// openCatalog opens what knows entities, stored limits, keys, usage, slots and
// replays.
func (s *stack) openCatalog(ctx context.Context, where string, log *slog.Logger) (*catalog.Recorder, error) {
	var store catalog.Store
	if isPostgres(where) {
		config := postgres.Config{Address: where, Log: log}
		cat, err := postgres.OpenCatalog(ctx, config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, cat.Close)
		slots, err := postgres.OpenSlots(ctx, config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, slots.Close)
		replays, err := postgres.OpenReplays(ctx, config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, replays.Close)
		store, s.slots, s.replays = cat, slots, replays
	} else {
		path, err := filepath.Abs(where)
		if err != nil {
			return nil, err
		}
		db, err := sqlite.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, db.Close)
		store, s.slots, s.replays = db.Catalog(), db.Slots(), db.Replays(nil)
	}
	var err error
	if s.catalog, err = catalog.Open(ctx, catalog.Config{Store: store, Log: log}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.catalog.Close)
	s.declares.Store(s.catalog)
	if err := declare(s.catalog, s.policy.Policy()); err != nil {
		return nil, err
	}
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: store, Log: log})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, recorder.Close)
	s.registry.MustRegister(metrics.Catalog(s.catalog), metrics.Usage(recorder))
	return recorder, nil
}
