package memory

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// Config of a store. The zero Config is a good one.
type Config struct {
	// MaxBuckets bounds the number of buckets. 0 means 5 million.
	MaxBuckets int

	// MaxBytes bounds the memory of buckets, leases and request ids, as far
	// as the store can reckon it. 0 means 512 MiB.
	MaxBytes int64

	// Snapshot is a file that the state is saved to, regularly and on Close,
	// and loaded from on Open. Empty means none.
	Snapshot string

	// SnapshotEvery is how often. 0 means 10 s.
	SnapshotEvery time.Duration

	// Log gets the few lines a store writes. Nil means slog.Default.
	Log *slog.Logger

	// Clock replaces the store's time, for tests.
	Clock func() time.Time
}

const (
	defaultBuckets       = 5_000_000
	defaultBytes         = 512 << 20
	defaultSnapshotEvery = 10 * time.Second
	mostBuckets          = shardCount * mostSlots
)

func (c Config) withDefaults() (Config, error) {
	if c.MaxBuckets == 0 {
		c.MaxBuckets = defaultBuckets
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultBytes
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = defaultSnapshotEvery
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.MaxBuckets < 1 || c.MaxBuckets > mostBuckets:
		return c, fmt.Errorf("memory: MaxBuckets: %d: must be 1 to %d", c.MaxBuckets, mostBuckets)
	case c.MaxBytes < 1<<10:
		return c, fmt.Errorf("memory: MaxBytes: %d: must be at least 1024", c.MaxBytes)
	case c.SnapshotEvery < time.Second:
		return c, fmt.Errorf("memory: SnapshotEvery: %s: must be at least 1s", c.SnapshotEvery)
	}
	return c, nil
}

// Store is the embedded [sluice.Store]. It is safe for concurrent use.
type Store struct {
	shards   [shardCount]shard // first, for its alignment
	hots     [shardCount]hot
	hints    [classes][shardCount]hint // of their tables
	config   Config
	seed     maphash.Seed
	clock    clock
	scopes   scopes
	receipts [receiptShards]receipts
	watchers watchers

	buckets    atomic.Int64
	bytes      atomic.Int64
	kept       atomic.Int64 // receipts
	overflowed atomic.Int64
	forgotten  atomic.Int64
	damaged    atomic.Int64

	pressed  atomic.Bool // the process is short of memory
	closed   atomic.Bool
	stop     chan struct{}
	stopped  sync.WaitGroup
	snapshot sync.Mutex // one writer of the file at a time
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// Open is a new store, with the state of its snapshot if it has one. A
// damaged snapshot is set aside under another name and reported, but not
// fatal; only a file that cannot be read or a wrong Config is.
func Open(config Config) (*Store, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{config: config, seed: maphash.MakeSeed(), stop: make(chan struct{})}
	s.clock.start(config)
	s.scopes.init(&s.bytes)
	for i := range s.receipts {
		s.receipts[i].byID = map[string]*receipt{}
	}
	if config.Snapshot != "" {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	s.stopped.Go(s.housekeep)
	return s, nil
}

// Close saves the snapshot, if there is one, and stops the store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.stop)
	s.stopped.Wait()
	if s.config.Snapshot != "" {
		return s.Save()
	}
	return nil
}

// Capabilities are all there are.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// Stats are counts since Open, and the present size.
type Stats struct {
	Buckets          int64         // now
	Bytes            int64         // now, as the store reckons it
	Receipts         int64         // leases and request ids now
	Overflowed       int64         // takes that used an overflow bucket
	Forgotten        int64         // full buckets that were dropped
	ClockBack        int64         // times the wall clock was set back
	ClockForward     int64         // times it was set forward
	ClockGaps        int64         // times the process stood still for over 15 s
	ClockAhead       time.Duration // how far the store's time is ahead of the wall clock
	DamagedSnapshots int64         // 1 if a damaged snapshot was set aside
}

// Stats tells the store's size and what happened to it.
func (s *Store) Stats() Stats {
	return Stats{
		Buckets: s.buckets.Load(), Bytes: s.bytes.Load(), Receipts: s.kept.Load(),
		Overflowed: s.overflowed.Load(), Forgotten: s.forgotten.Load(),
		ClockBack: s.clock.back.Load(), ClockForward: s.clock.forward.Load(), ClockGaps: s.clock.gaps.Load(),
		ClockAhead:       time.Duration(s.clock.ahead.Load()) * time.Microsecond,
		DamagedSnapshots: s.damaged.Load(),
	}
}

var errClosed = fmt.Errorf("memory store: %w", sluice.ErrClosed)

// ready says whether the store can be used at all.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// full reports whether new keys have to share.
func (s *Store) full() bool {
	return s.pressed.Load() || s.buckets.Load() >= int64(s.config.MaxBuckets) || s.bytes.Load() >= s.config.MaxBytes
}
