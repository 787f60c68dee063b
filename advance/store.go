package advance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// Config of a store. The zero Config is a good one.
type Config struct {
	// MaxBuckets bounds how many buckets this node has tokens or refusals of;
	// others are decided by the store. 0 means 1 million.
	MaxBuckets int

	// Log gets the few lines a store writes. Nil means slog.Default.
	Log *slog.Logger

	// Heard, if not nil, is told what is known of a bucket whenever the store
	// says it without a caller's asking: with tokens that it grants, and with
	// what is returned to it. So alarms see what all nodes have used together.
	// It has to be quick, and must not keep what it is given.
	Heard func(d *sluice.Demand, r *sluice.Result)

	// Clock replaces the wall clock and the monotonic one, for tests. The
	// latter counts from any moment.
	Clock func() (wall time.Time, mono time.Duration)

	// Node replaces the number drawn at random under which the node holds
	// tokens, for tests. It also makes the node treat its buckets in the same
	// order each time.
	Node uint64
}

const (
	defaultBuckets = 1_000_000
	holdFor        = 10 * time.Second // the store keeps a hold
	returnAfter    = 5 * time.Second  // of idleness a hold goes back

	// Before a hold cannot be trusted any more another is asked for, and what
	// is left of it goes back. A bucket is looked at every second, unless it
	// is just being asked for, so there are two chances to return it.
	renewBefore  = 3 * time.Second
	returnBefore = 2100 * time.Millisecond
)

// Store is a [sluice.Store] in front of a shared one. It is safe for
// concurrent use.
type Store struct {
	inner  sluice.Store
	config Config
	node   uint64
	seq    atomic.Uint64
	clock  clock
	table  *table

	unconfirmed unconfirmed

	asks    chan *ask
	stats   counters
	closing context.Context
	close   context.CancelFunc
	stopped sync.WaitGroup
}

var _ sluice.Store = (*Store)(nil)

type counters struct {
	held, denied, asked, exact, granted, returned atomic.Int64
}

// Stats are counts since New.
type Stats struct {
	Held       int64 // takes decided with tokens in hand
	Denied     int64 // takes refused by the deny cache
	Exact      int64 // takes that the store decided
	Asked      int64 // requests for holds
	Granted    int64 // of them, those that got something
	Returned   int64 // holds given back
	Distrusted int64 // times all holds were dropped because a clock ran ahead
	Buckets    int64 // known now
}

// New returns a store that holds tokens of inner ahead of need. Inner must be
// able to hold.
func New(inner sluice.Store, config Config) (*Store, error) {
	if !inner.Capabilities().Has(sluice.CanHold) {
		return nil, fmt.Errorf("advance: the store cannot hold tokens: %w", errors.ErrUnsupported)
	}
	if config.MaxBuckets == 0 {
		config.MaxBuckets = defaultBuckets
	}
	if config.MaxBuckets < 0 {
		return nil, fmt.Errorf("advance: MaxBuckets: %d: must not be negative", config.MaxBuckets)
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Store{inner: inner, config: config, node: config.Node, table: newTable(config.MaxBuckets)}
	if s.node == 0 {
		s.node = rand.Uint64() | 1
	}
	s.table.ordered = config.Node != 0
	s.asks = make(chan *ask, 1024)
	s.closing, s.close = context.WithCancel(context.Background())
	s.clock.start(config.Clock)
	for range askers {
		s.stopped.Go(s.ask)
	}
	s.stopped.Go(s.housekeep)
	return s, nil
}

// Close returns what is held and closes the inner store.
func (s *Store) Close() error {
	if s.closing.Err() != nil {
		return nil
	}
	s.close()
	s.stopped.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return errors.Join(s.returnAll(ctx), s.inner.Close())
}

// Capabilities are the inner store's.
func (s *Store) Capabilities() sluice.Capabilities { return s.inner.Capabilities() }

// Watch passes on what the inner store tells.
func (s *Store) Watch(wake func(sluice.Key)) {
	if w, ok := s.inner.(sluice.Watcher); ok {
		w.Watch(func(k sluice.Key) {
			s.forgive(k)
			wake(k)
		})
	}
}

// Stats tells what the store did.
func (s *Store) Stats() Stats {
	st := Stats{
		Held: s.stats.held.Load(), Denied: s.stats.denied.Load(), Exact: s.stats.exact.Load(),
		Asked: s.stats.asked.Load(), Granted: s.stats.granted.Load(), Returned: s.stats.returned.Load(),
		Distrusted: int64(s.clock.epoch.Load()),
	}
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		st.Buckets += int64(sh.buckets)
		sh.mu.Unlock()
	}
	return st
}

// Adjust asks the inner store, and forgets refusals that a refund may end. What
// is refunded may have been spent here, of which the store has to know first: it
// gives back no more than it knows to be used.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	var refunded []sluice.Key
	for i := range changes {
		if changes[i].Cost.Thousandths() < 0 {
			refunded = append(refunded, changes[i].Key)
		}
	}
	s.handIn(ctx, refunded)
	sent, _ := s.clock.now()
	err := s.inner.Adjust(ctx, changes, d)
	for i := range changes {
		s.forgive(changes[i].Key)
	}
	if err == nil {
		s.learn(d, sent)
	}
	return err
}

// Settle asks the inner store, and forgets refusals that it may end.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	sent, _ := s.clock.now()
	err := s.inner.Settle(ctx, st, d)
	if err == nil {
		for i := range d.Demands {
			s.forgive(d.Demands[i].Key)
		}
		s.learn(d, sent)
	}
	return err
}

// Reset asks the inner store, and forgets refusals. What was spent here is
// reported before, so that it is forgiven, too.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	s.handIn(ctx, keys)
	err := s.inner.Reset(ctx, keys)
	now, _ := s.clock.now()
	for _, k := range keys {
		sh, l := s.table.lock(&k)
		if l != nil {
			l.forgive()
			if err == nil {
				l.hear(l.limit.Capacity().Thousandths(), l.limit.Capacity().Thousandths(), 0, now, time.UnixMicro(l.said))
			}
		}
		sh.mu.Unlock()
	}
	return err
}

// Hold asks the inner store.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	return s.inner.Hold(ctx, requests, grants)
}

// Return asks the inner store.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	return s.inner.Return(ctx, returns)
}

// Forget asks the inner store: leases and request ids are only there.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	return s.inner.Forget(ctx, f)
}

// List asks the inner store. What it shows as held is in the nodes' hands, less
// what was spent here.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	page, err := s.inner.List(ctx, q)
	for i := range page.Buckets {
		b := &page.Buckets[i]
		r := sluice.Result{Remaining: b.Remaining, ResetAfter: b.Reset}
		s.correct(&sluice.Demand{Key: b.Key, Limit: b.Limit}, &r, page.Time)
		b.Held = sluice.Thousandths(max(0, b.Held.Thousandths()-(b.Remaining.Thousandths()-r.Remaining.Thousandths())))
		b.Remaining, b.Reset = r.Remaining, r.ResetAfter
	}
	return page, err
}

// forgive forgets a refusal, or all of them for [sluice.AnyKey].
func (s *Store) forgive(k sluice.Key) {
	if k == sluice.AnyKey {
		for i := range s.table.shards {
			sh := &s.table.shards[i]
			sh.mu.Lock()
			for l := range sh.all() {
				l.forgive()
			}
			sh.mu.Unlock()
		}
		return
	}
	sh, l := s.table.lock(&k)
	defer sh.mu.Unlock()
	if l != nil {
		l.forgive()
	}
}

func (l *local) forgive() { l.denyUntil, l.exactOnly, l.shortOf = 0, 0, 0 }
