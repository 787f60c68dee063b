package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Config configures a [Catalog].
type Config struct {
	// Store keeps the catalog. It stays the caller's to close.
	Store Store

	// Default are the limits that apply where no level has any. None by
	// default: what nobody has limited is not limited.
	Default Limits

	// TTL is how long an answer is remembered, if nothing is heard of a
	// change. 0 means a minute.
	TTL time.Duration

	// Entries is how many answers are remembered, of resolutions and of keys
	// each. 0 means 100000.
	Entries int

	// Secret is what API keys are hashed with, at least 32 bytes. If it is
	// empty, a random one is made once and kept in the store; then whoever
	// reads the whole database could test guesses at keys.
	Secret []byte

	// Log gets what goes wrong in the background. nil means slog.Default.
	Log *slog.Logger

	// Clock is for tests. nil means time.Now.
	Clock func() time.Time
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = time.Minute
	}
	if c.Entries == 0 {
		c.Entries = 100_000
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

func (c Config) validate() error {
	if c.Store == nil {
		return errors.New("catalog: config.store: must be set")
	}
	if c.TTL < time.Second || c.TTL > 24*time.Hour {
		return badinput.Field("catalog: config.ttl", c.TTL, "must be from a second to a day")
	}
	if c.Entries < 64 || c.Entries > 100_000_000 {
		return badinput.Field("catalog: config.entries", c.Entries, "must be from 64 to 100000000")
	}
	if len(c.Secret) != 0 && len(c.Secret) < 32 {
		return badinput.Field("catalog: config.secret", fmt.Sprintf("%d bytes", len(c.Secret)), "must be at least 32 bytes")
	}
	if len(c.Default) > 0 {
		return c.Default.validate("catalog: config.default")
	}
	return nil
}

// Catalog answers which limits apply and who a key belongs to, from memory
// where it can, and is where everything about that is read and changed:
// [Catalog.Edit] changes. It is safe for concurrent use.
type Catalog struct {
	config Config
	store  Store

	declared atomic.Pointer[map[string]*Declaration] // by namespace; never changed in place
	declare  sync.Mutex                              // for those who replace it

	freshness   freshness
	resolutions *cache[Subject, *Resolution]
	keys        *cache[string, *storedKey]
	hashes      *hashes
	uses        uses

	stop   context.CancelFunc
	done   sync.WaitGroup
	closed sync.Once
}

// Open prepares the store and begins to watch it. Close ends that.
func Open(ctx context.Context, config Config) (*Catalog, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Catalog{config: config, store: careful{config.Store}}
	c.declared.Store(&map[string]*Declaration{})
	if err := c.createDefault(ctx); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	secret, err := c.secret(ctx)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	c.hashes = newHashes(secret)
	c.resolutions = newCache(config.Entries, config.TTL, staleLimits, config.Clock, &c.freshness, c.load)
	c.keys = newCache(config.Entries, config.TTL, staleKeys, config.Clock, &c.freshness, c.loadKey)
	c.keys.strict = true
	background, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.done.Go(func() { c.watch(background) })
	c.done.Go(func() { c.markUsed(background) })
	return c, nil
}

// Close ends what runs in the background, after writing down which keys were
// used. The store stays open.
func (c *Catalog) Close() error {
	c.closed.Do(func() {
		c.stop()
		c.done.Wait()
	})
	return nil
}

// Declare sets what the policy file says for a namespace, for subjects that
// bring no file: at each level it holds where nothing is stored. It replaces
// what was declared before, and must not be changed from then on.
func (c *Catalog) Declare(namespace string, d *Declaration) error {
	if err := checkName("namespace", namespace); err != nil {
		return err
	}
	if err := d.Validate(); err != nil {
		return err
	}
	c.declare.Lock()
	defer c.declare.Unlock()
	all := map[string]*Declaration{}
	for name, old := range *c.declared.Load() {
		all[name] = old
	}
	all[namespace] = d
	c.declared.Store(&all)
	c.resolutions.drop(func(s Subject) bool { return s.Namespace == namespace && s.File != d })
	return nil
}

// Declaration is what was declared for a namespace; never nil.
func (c *Catalog) Declaration(namespace string) *Declaration {
	if d := (*c.declared.Load())[namespace]; d != nil {
		return d
	}
	return nothing
}

// Flush makes every node forget all answers about limits and keys. Changes are
// heard of without it; it is for operators who have changed the database by hand.
// This node has forgotten them when Flush returns, the others within a second.
func (c *Catalog) Flush(ctx context.Context) error {
	_, err := c.store.Change(ctx, &Batch{Mutations: []Mutation{{Record: Record{RecordKey: RecordKey{Kind: KindFlush}}, If: IfAny}}})
	if err == nil {
		c.freshness.bumpAll()
	}
	return err
}

// Shrink forgets half of the answers, for a process that is short of memory, and
// returns how many that were.
func (c *Catalog) Shrink() int64 { return c.resolutions.shrink() + c.keys.shrink() }

// Stats counts how the cache does. They only grow, but for the entries.
type Stats struct {
	Resolutions, Keys CacheStats
	Watching          bool // changes elsewhere are heard of at once
}

// Stats are the figures of this node's cache.
func (c *Catalog) Stats() Stats {
	return Stats{Resolutions: c.resolutions.stats(), Keys: c.keys.stats(), Watching: c.freshness.watching.Load()}
}

// watch hears of other nodes' changes. While it cannot, answers are trusted
// for a second only.
func (c *Catalog) watch(ctx context.Context) {
	pauses := backoff.Pauses{First: 100 * time.Millisecond, Max: 2 * time.Second}
	for n := 1; ; n++ {
		err := c.store.Watch(ctx, func(changed Changed) {
			if changed.All {
				c.freshness.bumpAll()
				c.freshness.watching.Store(true)
				n = 1
				return
			}
			c.changed(changed)
		})
		c.freshness.watching.Store(false)
		if ctx.Err() != nil {
			return
		}
		c.config.Log.Warn("catalog: changes of other nodes are not heard of at once", "error", err)
		if !pauses.Wait(ctx, n) {
			return
		}
	}
}

// changed makes the caches forget what depends on a record.
func (c *Catalog) changed(r Changed) {
	switch r.Kind {
	case KindEntity, KindEntityLimits, KindOverride:
		c.freshness.bump(hashEntity(r.Namespace, r.ID))
	case KindTier, KindTierLimits:
		c.freshness.bump(hashTier(r.Namespace, r.ID))
	case KindResourceLimits:
		c.freshness.bump(hashResource(r.Namespace, r.ID))
	case KindSystemLimits:
		c.freshness.bump(hashNamespace(r.Namespace))
	case KindNamespace:
		c.freshness.bump(hashNamespace(r.ID))
	case KindKey:
		c.freshness.bump(hashKey(r.ID))
	case KindFlush:
		c.freshness.bumpAll()
	}
}

// secret is what keys are hashed with: the one configured, or the one stored,
// which whoever comes first makes.
func (c *Catalog) secret(ctx context.Context) ([]byte, error) {
	if len(c.config.Secret) > 0 {
		return c.config.Secret, nil
	}
	return storedSecret(ctx, c.store, "keys")
}

// storedSecret is the secret of a purpose, which whoever comes first makes.
func storedSecret(ctx context.Context, store Store, purpose string) ([]byte, error) {
	type stored struct {
		Secret []byte `json:"secret"`
	}
	key := RecordKey{Kind: KindSecret, ID: purpose}
	for {
		r, err := store.Get(ctx, key)
		if err == nil {
			var s stored
			if err := decode(r, &s); err != nil {
				return nil, err
			}
			return s.Secret, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		fresh := make([]byte, 32)
		rand.Read(fresh) //nolint:errcheck // it never fails
		data, err := encode(stored{fresh})
		if err != nil {
			return nil, err
		}
		_, err = store.Change(ctx, &Batch{Mutations: []Mutation{{Record: Record{RecordKey: key, Data: data}, If: IfAbsent}}})
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, sluice.ErrUnknown) {
			return nil, err
		}
	}
}
