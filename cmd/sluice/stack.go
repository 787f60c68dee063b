package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/dynamodb"
	dynamolimits "github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/pressure"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/postgres"
	pgcatalog "github.com/sluice-go/sluice/postgres/catalogstore"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	pgreplays "github.com/sluice-go/sluice/postgres/replaystore"
	pgslots "github.com/sluice-go/sluice/postgres/slotstore"
	"github.com/sluice-go/sluice/redis"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
	redisreplays "github.com/sluice-go/sluice/redis/replaystore"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
	sqlitecatalog "github.com/sluice-go/sluice/sqlite/catalogstore"
	sqlitereplays "github.com/sluice-go/sluice/sqlite/replaystore"
	sqliteslots "github.com/sluice-go/sluice/sqlite/slotstore"
	"github.com/sluice-go/sluice/tracing"
)

// places are where a node keeps things.
type places struct {
	store   database // memory, or the address of Redis, PostgreSQL or DynamoDB
	catalog database // a file, or the address of PostgreSQL
	replays database // a file, or the address of PostgreSQL or Redis; "" for the catalog's
	migrate string   // on, or off
	policy  string   // a file; "" for the sample
	hold    bool     // hold tokens ahead of need
	alerts  catalog.Thresholds

	memoryBuckets int   // of a store in memory; 0 for its default
	memoryBytes   int64 // the same
	processMemory int64 // 0 for what the runtime or the container allows
	usageSeries   int   // in a namespace; 0 for the default
	cacheTTL      period
}

// stack is everything that a node is made of, from the store up.
type stack struct {
	limiter  *sluice.Limiter
	exact    *sluice.Limiter // the same without held tokens
	paced    *sluice.Limiter // that for the pace of targets, which is nobody's use and raises no alarm
	catalog  *catalog.Catalog
	first    *policy.Policy // as it was when the node started
	policy   *policy.Live
	degraded *failover.Store // nil if the store is this process's own
	census   failover.Census
	activity *server.Activity
	slots    schedule.Store
	replays  idempotency.Store
	keeps    *idempotency.Keeper
	gate     *httplimit.Gate
	guard    *abuse.Guard
	logins   *abuse.Logins
	registry *prometheus.Registry
	pools    map[string]metrics.Pooled
	tracing  *tracing.Tracing // nil without
	presses  func(bool) int64 // tells the store in memory that memory is short
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
	s = &stack{registry: prometheus.NewRegistry(), census: failover.Census{Name: nodeName()}, activity: server.NewActivity(0), pools: map[string]metrics.Pooled{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	if s.tracing, err = tracing.Open(ctx, tracing.Config{Log: log}); err != nil {
		return s, err
	}
	s.closers = append(s.closers, func() error {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := s.tracing.Shutdown(sending); err != nil {
			log.Warn("spans were lost", "error", err)
		}
		return nil
	})
	if s.first, err = policy.Parse("sample policy", samplePolicy); p.policy != "" {
		s.first, err = policy.Load(p.policy)
	}
	if err != nil {
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
	if s.degraded != nil {
		s.census.Start(s.degraded)
		s.closers = append(s.closers, s.census.Close)
	}
	recorder, err := s.openCatalog(ctx, &p, log)
	if err != nil {
		return s, err
	}
	if limit := pressure.Limit(p.processMemory); limit > 0 {
		gauge := pressure.Watch(limit, nil, map[string]pressure.Relief{
			"buckets": s.presses,
			"answers": func(pressed bool) int64 {
				if !pressed {
					return 0
				}
				return s.catalog.Shrink()
			},
		}, log)
		s.closers = append(s.closers, gauge.Close)
		s.registry.MustRegister(metrics.Pressure(gauge))
	}
	if len(s.pools) > 0 {
		s.registry.MustRegister(metrics.Pools(s.pools))
	}
	takes := metrics.NewTakes()
	s.registry.MustRegister(takes, utilization)
	told := sluice.WithObserver(observers{takes, utilization, recorder, s.activity})
	store, exact = s.tracing.Store("decide", store), s.tracing.Store("decide", exact)
	s.limiter, s.exact, s.paced = sluice.New(store, told), sluice.New(exact, told), sluice.New(exact)
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

// followPolicy makes the node go by the policy file as it is now, and by every
// new one.
func (s *stack) followPolicy(ctx context.Context, path string, log *slog.Logger) error {
	s.policy = policy.Fixed(s.first)
	if path == "" {
		if err := s.use(s.first); err != nil {
			return err
		}
	} else {
		live, err := policy.Watch(ctx, path, policy.WatchConfig{Log: log, Prepare: s.use})
		if err != nil {
			return err
		}
		s.policy = live
		s.closers = append(s.closers, func() error { live.Close(); return nil })
	}
	s.registry.MustRegister(metrics.Policy(s.policy))
	return nil
}

// use makes a policy count as a whole: who is calling, what requests take, what
// the catalog falls back on, and what happens without the store. If any of it
// cannot be used, nothing changes.
func (s *stack) use(p *policy.Policy) error {
	old := s.gate.Policy()
	if s.degraded != nil {
		if err := s.degraded.Configure(degraded(&p.Degraded)); err != nil {
			return err
		}
	}
	if err := s.gate.Use(p); err != nil {
		if s.degraded != nil {
			err = errors.Join(err, s.degraded.Configure(degraded(&old.Degraded)))
		}
		return err
	}
	if old.Namespace != p.Namespace {
		if err := s.catalog.Declare(old.Namespace, &catalog.Declaration{}); err != nil {
			return err
		}
	}
	return s.catalog.Declare(p.Namespace, p.Declared)
}

// degraded is what a policy says about times without the store, as package
// failover knows it.
func degraded(d *policy.Degraded) failover.Config {
	config := failover.Config{
		Timeout: d.Timeout, Failures: d.Failures, Successes: d.Successes, Backoff: d.Backoff, MaxBackoff: d.MaxBackoff,
		Testing: failover.Phase(d.Testing), Partial: failover.Phase(d.Partial), Stabilizing: failover.Phase(d.Stabilizing),
		MaxBuckets: d.MaxBuckets,
	}
	for tier, q := range d.Quotas {
		if config.Quotas == nil {
			config.Quotas = map[string]failover.Quota{}
		}
		config.Quotas[tier] = failover.Quota{Limit: q.Limit, Factor: int64(math.Round(q.Cost * 1000))}
	}
	return config
}

// openStore opens what keeps the buckets. A shared store gets failover and
// held tokens in front; exact is the one without held tokens.
func (s *stack) openStore(ctx context.Context, p places, alarms *metrics.Utilization, log *slog.Logger) (store, exact sluice.Store, err error) {
	if at := p.store.address; at == "memory" || strings.HasPrefix(at, "memory:") {
		snapshot := strings.TrimPrefix(strings.TrimPrefix(at, "memory"), ":")
		if snapshot != "" {
			release, err := lock(snapshot)
			if err != nil {
				return nil, nil, err
			}
			s.closers = append(s.closers, release)
		}
		store, err := memory.Open(memory.Config{Snapshot: snapshot, MaxBuckets: p.memoryBuckets, MaxBytes: p.memoryBytes, Log: log})
		if err != nil {
			return nil, nil, err
		}
		s.registry.MustRegister(metrics.Memory(store))
		s.presses = store.Press
		return store, store, nil
	}
	if p.store.replicas != 0 && !strings.HasPrefix(p.store.address, "redis") {
		return nil, nil, errors.New("--store-replicas is for Redis; PostgreSQL has synchronous_standby_names")
	}
	config := degraded(&s.first.Degraded)
	config.Log = log
	shared, err := openShared(ctx, &p, config.Timeout, log)
	if err != nil {
		return nil, nil, err
	}
	switch store := shared.(type) {
	case *pglimits.Store:
		s.registry.MustRegister(metrics.Postgres(store))
		s.pools["limits"] = store
	case *redislimits.Store:
		s.registry.MustRegister(metrics.Redis(store), metrics.Connections(store))
		if store.Sharded() {
			config.Shards = store
		}
	case *dynamolimits.Store:
		s.registry.MustRegister(metrics.DynamoDB(store))
	}
	calls := metrics.NewCalls(s.tracing.Store("store", shared))
	s.registry.MustRegister(calls)
	config.Nodes = s.census.Nodes
	guarded, err := failover.New(calls, config)
	if err != nil {
		return nil, nil, errors.Join(err, shared.Close())
	}
	s.degraded, s.presses = guarded, guarded.Press
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

// openShared opens a store that several nodes share. A policy may let it take
// longer than it would by itself.
func openShared(ctx context.Context, p *places, timeout time.Duration, log *slog.Logger) (sluice.Store, error) {
	scheme, _, _ := strings.Cut(p.store.address, ":")
	switch {
	case strings.HasPrefix(scheme, "redis"):
		config, err := p.store.redis(log)
		if err != nil {
			return nil, err
		}
		config.Timeout = max(timeout, redis.DefaultTimeout)
		return redislimits.Open(ctx, config)
	case p.store.isPostgres():
		config, err := p.store.postgres(p.migrate, log)
		if err != nil {
			return nil, err
		}
		config.Timeout = max(timeout, postgres.DefaultTimeout)
		return pglimits.Open(ctx, config)
	case scheme == "dynamodb":
		config, err := p.store.dynamodb(log)
		if err != nil {
			return nil, err
		}
		config.Timeout = max(timeout, dynamodb.DefaultTimeout)
		return dynamolimits.Open(ctx, config)
	}
	return nil, fmt.Errorf("--store %q: want memory, memory:FILE, or an address that begins with redis://, rediss://, redis+sentinel://, redis+cluster://, postgres:// or dynamodb://", redacted(p.store.address))
}

// openReplays opens what keeps the responses of idempotent writes, unless it is
// the catalog's file.
func (s *stack) openReplays(ctx context.Context, p *places, log *slog.Logger) error {
	place := &p.replays
	if place.address == "" {
		place = &p.catalog
	}
	switch {
	case s.replays != nil:
	case place.isPostgres():
		config, err := place.postgres(p.migrate, log)
		if err != nil {
			return err
		}
		store, err := pgreplays.Open(ctx, config)
		if err != nil {
			return err
		}
		s.replays, s.pools["replays"] = store, store
		s.closers = append(s.closers, store.Close)
	case strings.HasPrefix(place.address, "redis"):
		config, err := place.redis(log)
		if err != nil {
			return err
		}
		store, err := redisreplays.Open(ctx, config)
		if err != nil {
			return err
		}
		s.replays = store
		s.closers = append(s.closers, store.Close)
	default:
		db, err := place.sqlite(ctx, p.migrate)
		if err != nil {
			return err
		}
		s.replays = sqlitereplays.New(db, nil)
		s.closers = append(s.closers, db.Close)
	}
	return nil
}

// replaysApart reports whether nodes that share their limits keep replays each
// for itself, so that a repeat that reaches another node runs again.
func (p *places) replaysApart() bool {
	shared := !strings.HasPrefix(p.store.address, "memory")
	place := cmp.Or(p.replays.address, p.catalog.address)
	return shared && !strings.HasPrefix(place, "redis") && !strings.HasPrefix(place, "postgres")
}

// openCatalog opens what knows entities, stored limits, keys, usage, slots and
// replays.
func (s *stack) openCatalog(ctx context.Context, p *places, log *slog.Logger) (*catalog.Recorder, error) {
	var store catalog.Store
	if p.catalog.isPostgres() {
		config, err := p.catalog.postgres(p.migrate, log)
		if err != nil {
			return nil, err
		}
		cat, err := pgcatalog.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, cat.Close)
		slots, err := pgslots.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, slots.Close)
		store, s.slots = cat, slots
		s.pools["catalog"], s.pools["slots"] = cat, slots
	} else {
		db, err := p.catalog.sqlite(ctx, p.migrate)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, db.Close)
		store, s.slots = sqlitecatalog.New(db), sqliteslots.New(db)
		if p.replays.address == "" {
			s.replays = sqlitereplays.New(db, nil)
		}
	}
	if err := s.openReplays(ctx, p, log); err != nil {
		return nil, err
	}
	var err error
	if s.catalog, err = catalog.Open(ctx, catalog.Config{Store: store, TTL: time.Duration(p.cacheTTL), Log: log}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.catalog.Close)
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: store, Stored: p.usageSeries, Log: log})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, recorder.Close)
	s.registry.MustRegister(metrics.Catalog(s.catalog), metrics.Usage(recorder))
	return recorder, nil
}
