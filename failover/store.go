package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// Store decorates another store; see the package comment. It is safe for
// concurrent use.
type Store struct {
	inner    sluice.Store
	settings atomic.Pointer[settings]
	shards   Shards
	origin   time.Time
	whole    breaker  // of a store without shards
	byShard  sync.Map // of the shards, by number
	waking   sync.Mutex
	wakes    []func(sluice.Key)
	local    *memory.Store // the degraded quotas
	leases   leases
	work     sync.Pool // of *work

	outcomes [outcomes]atomic.Int64
	unknown  atomic.Int64 // takes
	adjusts  atomic.Int64 // with an unknown outcome
	reported atomic.Int64 // when an unreadable record was last written down
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// bytesPerBucket is what the local store may use for each bucket it may have,
// leases included.
const bytesPerBucket = 256

// New returns a store that asks inner, and decides locally when it cannot. It
// trusts inner to give up when its context ends.
func New(inner sluice.Store, config Config) (*Store, error) {
	s := &Store{inner: inner}
	if err := s.Configure(config); err != nil {
		return nil, err
	}
	config = s.settings.Load().Config
	var err error
	s.local, err = memory.Open(memory.Config{
		MaxBuckets: config.MaxBuckets,
		MaxBytes:   max(int64(config.MaxBuckets)*bytesPerBucket, 1<<20),
		Log:        config.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("failover: local quotas: %w", err)
	}
	s.origin, s.shards = time.Now(), config.Shards
	s.prepare(&s.whole, 0, context.Background())
	s.leases.most = max(config.MaxBuckets/4, 1)
	s.work.New = func() any { return new(work) }
	return s, nil
}

// settings are a [Config] and its quotas at work. They never change.
type settings struct {
	Config
	quotas map[string]*quota
}

// Configure replaces the configuration as a whole. If config is invalid, it
// returns an error and changes nothing. What entities have taken of their local
// quotas stays taken, and so does the state of the breaker. MaxBuckets, Nodes,
// Shards, Log and Rand stay as they are.
func (s *Store) Configure(config Config) error {
	old := s.settings.Load()
	if old != nil {
		config.MaxBuckets, config.Log, config.Rand, config.Nodes, config.Shards = old.MaxBuckets, old.Log, old.Rand, old.Nodes, old.Shards
	}
	next := &settings{config.withDefaults(), map[string]*quota{}}
	if err := next.validate(); err != nil {
		return err
	}
	for tier, q := range next.Quotas {
		at, err := newQuota(tier, q)
		if err != nil {
			return err
		}
		if old != nil && old.quotas[tier] != nil {
			at.counts = old.quotas[tier].counts
		}
		next.quotas[tier] = at
	}
	s.settings.Store(next)
	return nil
}

// Take asks the store if it may be asked, and decides locally if not or if
// there is no answer.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	source := sluice.Degraded
	if p, more, ok := s.admitTake(t); ok {
		c := s.begin(ctx, p, more...)
		o, err := c.end(s.inner.Take(c.ctx, t, d))
		if o == answered || o == callers {
			return err
		}
		if o.unknown() && !t.Peek { // a peek cannot have counted
			source = sluice.Unknown
		}
		if o == unreadable || o == halted {
			s.reportRecord(t, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.decide(t, d, source)
}

// reportEvery is how often a take that meets an unreadable record is logged.
const reportEvery = time.Second

// reportRecord writes down which buckets a take was about that met a record which
// the store cannot read. Only they are decided locally, until they are reset.
func (s *Store) reportRecord(t *sluice.Take, err error) {
	now, last := int64(s.whole.now()), s.reported.Load()
	if last != 0 && now-last < int64(reportEvery) || !s.reported.CompareAndSwap(last, max(now, 1)) {
		return
	}
	keys := make([]string, len(t.Demands))
	for i := range t.Demands {
		keys[i] = t.Demands[i].Key.String()
	}
	s.settings.Load().Log.Error("a record cannot be read; resetting its bucket mends it", "buckets", keys, "error", err)
}

// Adjust needs the store.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	c, err := s.beginAny(ctx, len(changes), func(i int) *sluice.Key { return &changes[i].Key })
	if err != nil {
		return err
	}
	o, err := c.end(s.inner.Adjust(c.ctx, changes, d))
	if o.unknown() {
		s.adjusts.Add(1)
		s.settings.Load().Log.Warn("outcome of an adjustment is unknown", "buckets", len(changes), "first", changes[0].Key, "cost", changes[0].Cost, "error", err)
	}
	return err
}

// Settle settles leases that were given locally here, and needs the store for
// the others. The store is told of those, too, that it may have granted.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	if s.local.Stats().Receipts > 0 {
		twice := s.leases.mayBeStored(st.ID)
		err := s.settle(ctx, st, d)
		if err == nil && twice {
			copied := *st
			copied.Costs = slices.Clone(st.Costs)
			s.passOn(copied, time.Second, 4*time.Second, 15*time.Second, 60*time.Second)
		}
		if !errors.Is(err, sluice.ErrLeaseClosed) {
			return err
		}
	}
	c, err := s.beginFor(ctx, st.ID)
	if err != nil {
		return err
	}
	o, err := c.end(s.inner.Settle(c.ctx, st, d))
	if o.unknown() {
		s.adjusts.Add(1)
		s.settings.Load().Log.Warn("outcome of a settlement is unknown", "lease", st.ID, "action", st.Action.String(), "error", err)
	}
	return err
}

// Reset needs the store. Local quotas stay as they are.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	c, err := s.beginAny(ctx, len(keys), func(i int) *sluice.Key { return &keys[i] })
	if err != nil {
		return err
	}
	_, err = c.end(s.inner.Reset(c.ctx, keys))
	return err
}

// Hold needs the store. While it recovers, keys whose turn has not come are
// granted nothing, with a RetryIn of 0: there is no need to wait, for a take
// gets a local answer.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	if s.shards != nil {
		return s.holdByShard(ctx, requests, grants)
	}
	return s.hold(ctx, &s.whole, requests, grants)
}

func (s *Store) hold(ctx context.Context, b *breaker, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	ask, places := requests, []int(nil)
	if state := b.state(); state.recovering() {
		if places = s.turns(requests, state); len(places) == 0 {
			return b.unavailable()
		}
		if len(places) == len(requests) {
			places = nil
		}
	}
	p, ok := b.admit()
	if !ok {
		return b.unavailable()
	}
	c := s.begin(ctx, p)
	if places == nil {
		_, err := c.end(s.inner.Hold(c.ctx, ask, grants))
		return err
	}
	ask = make([]sluice.HoldRequest, len(places))
	for i, at := range places {
		ask[i] = requests[at]
	}
	granted := make([]sluice.Grant, len(ask))
	if _, err := c.end(s.inner.Hold(c.ctx, ask, granted)); err != nil {
		return err
	}
	for i := range grants[:len(requests)] {
		// A previous hold that is not closed by this lapses by itself.
		grants[i] = sluice.Grant{Now: granted[0].Now}
	}
	for i, at := range places {
		grants[at] = granted[i]
	}
	return nil
}

// turns are the requests whose keys are asked of the store in this phase.
func (s *Store) turns(requests []sluice.HoldRequest, phase State) []int {
	places := make([]int, 0, len(requests))
	for i := range requests {
		if keyShare(&requests[i].Key) < s.settings.Load().phase(phase).Share {
			places = append(places, i)
		}
	}
	return places
}

// Return needs the store. It does not try a store that is away, so that a
// caller that stops waiting does not wait for that: what is not returned lapses.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	_, err := s.byBreaker(len(returns), func(i int) *sluice.Key { return &returns[i].Key }, func(b *breaker, which []int) error {
		some := returns
		if len(which) < len(returns) {
			some = make([]sluice.HoldReturn, len(which))
			for n, i := range which {
				some[n] = returns[i]
			}
		}
		p, ok := pass{}, false
		if state := b.state(); state != Open && state != HalfOpen {
			p, ok = b.admit()
		}
		if !ok {
			return b.unavailable()
		}
		c := s.begin(ctx, p)
		_, err := c.end(s.inner.Return(c.ctx, some))
		return err
	})
	return err
}

// List needs the store. A long list may take longer than Timeout and then
// says nothing about how the store takes, so it has only the caller's
// deadline and does not count for the breaker.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if s.away() {
		return sluice.Page{}, s.worst().unavailable()
	}
	return s.inner.List(ctx, q)
}

// Forget needs the store, as List does.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	if s.away() {
		return "", s.worst().unavailable()
	}
	return s.inner.Forget(ctx, f)
}

// Watch passes on what the store can tell, if it can. It also wakes all who
// wait whenever the state changes, since others decide for them then.
func (s *Store) Watch(wake func(sluice.Key)) {
	s.waking.Lock()
	s.wakes = append(slices.Clip(s.wakes), wake)
	s.waking.Unlock()
	if w, ok := s.inner.(sluice.Watcher); ok {
		w.Watch(wake)
	}
}

// wakeAll wakes all who wait.
func (s *Store) wakeAll() {
	s.waking.Lock()
	wakes := s.wakes
	s.waking.Unlock()
	for _, wake := range wakes {
		wake(sluice.AnyKey)
	}
}

// Capabilities returns those of the inner store.
func (s *Store) Capabilities() sluice.Capabilities { return s.inner.Capabilities() }

// Close ends the health checks, closes the store and forgets the local quotas.
func (s *Store) Close() error {
	s.whole.stopChecking()
	s.breakers((*breaker).stopChecking)
	return errors.Join(s.inner.Close(), s.local.Close())
}
