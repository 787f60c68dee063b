package failover

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
)

// Shards reports which parts of a store fail together, such as the shards of a
// Redis Cluster. Each has its own breaker, so that a dead one degrades only its
// own keys.
type Shards interface {
	// ShardOf returns the shard that a bucket is in.
	ShardOf(sluice.Key) int

	// ShardOfID returns the shard that a lease or a request id is in.
	ShardOfID(id string) int
}

// prepare makes a breaker ready for use.
func (s *Store) prepare(b *breaker, shard int, parent context.Context) {
	b.settings, b.origin, b.shard, b.changed = &s.settings, s.origin, shard, s.wakeAll
	b.since = b.now()
	b.checking.init(parent, s.check)
}

// breaker returns that of a shard.
func (s *Store) breaker(shard int) *breaker {
	if b, ok := s.byShard.Load(shard); ok {
		return b.(*breaker)
	}
	b := new(breaker)
	s.prepare(b, shard, s.whole.checking.closing)
	known, _ := s.byShard.LoadOrStore(shard, b)
	return known.(*breaker)
}

func (s *Store) breakerOf(k *sluice.Key) *breaker {
	if s.shards == nil {
		return &s.whole
	}
	return s.breaker(s.shards.ShardOf(*k))
}

// breakers calls f with all there are.
func (s *Store) breakers(f func(*breaker)) {
	if s.shards == nil {
		f(&s.whole)
		return
	}
	s.byShard.Range(func(_, b any) bool {
		f(b.(*breaker))
		return true
	})
}

// worst returns the breaker whose state is furthest from normal.
func (s *Store) worst() *breaker {
	worst := &s.whole
	s.breakers(func(b *breaker) {
		if state := b.state(); state != Normal && (worst.state() == Normal || state < worst.state()) {
			worst = b
		}
	})
	return worst
}

// away reports whether nothing can be asked of the store.
func (s *Store) away() bool {
	any, all := false, true
	s.breakers(func(b *breaker) {
		state := b.state()
		any, all = true, all && (state == Open || state == HalfOpen)
	})
	return any && all
}

// admitTake returns the passes for a take, one for each shard that it is about,
// if the store may be asked.
func (s *Store) admitTake(t *sluice.Take) (p pass, more []pass, ok bool) {
	if s.shards == nil {
		p, ok = s.whole.admitTake(t)
		return p, nil, ok
	}
	all := make([]*breaker, 0, len(t.Demands)+1)
	for i := range t.Demands {
		all = append(all, s.breakerOf(&t.Demands[i].Key))
	}
	if t.ID != "" && !t.Peek {
		all = append(all, s.breaker(s.shards.ShardOfID(t.ID)))
	}
	return admitAll(all, func(b *breaker) (pass, bool) { return b.admitTake(t) })
}

// admit returns the passes for a call about some keys that is not a take.
func (s *Store) admit(n int, key func(int) *sluice.Key) (p pass, more []pass, ok bool) {
	if s.shards == nil {
		p, ok = s.whole.admit()
		return p, nil, ok
	}
	all := make([]*breaker, n)
	for i := range all {
		all[i] = s.breakerOf(key(i))
	}
	return admitAll(all, (*breaker).admit)
}

// admitAll returns a pass of each breaker, if all give one.
func admitAll(all []*breaker, admit func(*breaker) (pass, bool)) (first pass, more []pass, ok bool) {
	for i, b := range all {
		if slices.Contains(all[:i], b) {
			continue
		}
		p, ok := admit(b)
		switch {
		case !ok:
			for _, p := range append(more, first) {
				if p.by != nil {
					p.by.neutral(p)
				}
			}
			return pass{}, nil, false
		case i == 0:
			first = p
		default:
			more = append(more, p)
		}
	}
	return first, more, true
}

// suspect makes a health check at once, after a call about several shards that
// failed: one of them is to blame.
func (b *breaker) suspect() {
	if !b.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer b.asking.Store(false)
		b.checking.ask(b.checking.closing, pass{by: b, word: b.word.Load()})
	}()
}

// probedBy returns a key that the health check of a breaker can take from. There
// is none if its shard is no more.
func (s *Store) probedBy(b *breaker) (sluice.Key, bool) {
	key := checkTake.Demands[0].Key
	if s.shards == nil {
		return key, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range 1 << 16 {
		if b.probed != (sluice.Key{}) && s.shards.ShardOf(b.probed) == b.shard {
			return b.probed, true
		}
		b.probed = key
		b.probed.Entity = strconv.Itoa(i)
	}
	return key, false
}

// byBreaker does something to n things with keys, shard by shard: what one of
// them cannot do, others can. It returns which were not done, and why.
func (s *Store) byBreaker(n int, key func(int) *sluice.Key, do func(b *breaker, which []int) error) (failed []int, err error) {
	groups := map[*breaker][]int{}
	var order []*breaker
	for i := range n {
		b := s.breakerOf(key(i))
		if groups[b] == nil {
			order = append(order, b)
		}
		groups[b] = append(groups[b], i)
	}
	for _, b := range order {
		if why := do(b, groups[b]); why != nil {
			failed, err = append(failed, groups[b]...), errors.Join(err, why)
		}
	}
	return failed, err
}

// holdByShard is Hold over several shards. What one does not answer counts as not
// asked for.
func (s *Store) holdByShard(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	var now time.Time
	failed, err := s.byBreaker(len(requests), func(i int) *sluice.Key { return &requests[i].Key }, func(b *breaker, which []int) error {
		some, granted := make([]sluice.HoldRequest, len(which)), make([]sluice.Grant, len(which))
		for n, i := range which {
			some[n] = requests[i]
		}
		if err := s.hold(ctx, b, some, granted); err != nil {
			return err
		}
		for n, i := range which {
			grants[i], now = granted[n], granted[n].Now
		}
		return nil
	})
	if len(failed) == len(requests) {
		return err
	}
	for _, i := range failed {
		grants[i] = sluice.Grant{Now: now}
	}
	return nil
}
