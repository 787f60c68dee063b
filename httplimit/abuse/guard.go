package abuse

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/policy"
)

// Config configures a [Guard]. The zero Config is a good one.
type Config struct {
	// MaxCallers bounds how many are watched, those seen last. 0 means
	// 100 000.
	MaxCallers int

	// Audit is told of every sanction that begins or is lifted. It is called
	// on the request's path, so it must be quick. Nil tells nobody but Log.
	Audit func(Event)

	// Log gets the same. Nil means slog.Default.
	Log *slog.Logger

	// Store is where nodes tell each other of sanctions: within two seconds they
	// hold on all nodes with the same Namespace, and are lifted on all. On Redis
	// that is for some thousand callers; others are sanctioned where they were
	// seen. Nil keeps sanctions to this node.
	Store     sluice.Store
	Namespace string
}

// Kind is what is done about a caller.
type Kind string

// The kinds of sanctions.
const (
	Ban       Kind = "ban"
	Emergency Kind = "emergency"
)

var reasons = map[Kind]string{Ban: "refused too often", Emergency: "far more requests than usual"}

// Sanction is what is done about a caller, and until when.
type Sanction struct {
	Entity string    `json:"entity"`
	Kind   Kind      `json:"kind"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

// Event tells that a sanction began, or that somebody lifted it.
type Event struct {
	Sanction
	Lifted bool   `json:"lifted,omitempty"`
	By     string `json:"by,omitempty"` // who lifted it
}

// Guard watches callers. It is safe for concurrent use.
type Guard struct {
	config Config
	seed   maphash.Seed
	shards [shardCount]shard
	most   int
	origin time.Time
	until  atomic.Int64 // when the last sanction that began here ends, in nanoseconds since origin

	limiter *sluice.Limiter // on the store; nil without
	known   atomic.Pointer[map[shared]Sanction]
	begun   chan struct{} // a sanction is to be shared
	syncing sync.Mutex    // while the store is asked
	closing context.Context
	close   context.CancelFunc
	synced  chan struct{}
}

const shardCount = 64

type shard struct {
	mu      sync.Mutex
	callers map[string]*caller
}

// caller is what is known about one entity.
type caller struct {
	last time.Time

	refusedSince time.Time // begin of the window that refusals are counted in
	refusals     int

	first    time.Time // when it was first seen
	window   time.Time // begin of the window that requests are counted in
	requests float64
	usual    float64 // requests in a window, averaged over the baseline

	ban, emergency *Sanction
}

// New returns a guard that watches nobody yet.
func New(config Config) (*Guard, error) {
	if config.MaxCallers == 0 {
		config.MaxCallers = 100_000
	}
	if config.MaxCallers < 0 || config.MaxCallers > 100_000_000 {
		return nil, &sluice.FieldError{Field: "abuse.max_callers", Value: config.MaxCallers, Reason: "must be between 0 (100000) and 100 million"}
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if len(config.Namespace) > 200 {
		return nil, errNamespace
	}
	g := &Guard{config: config, seed: maphash.MakeSeed(), origin: time.Now(), most: max(config.MaxCallers/shardCount, 1)}
	g.known.Store(&map[shared]Sanction{})
	for i := range g.shards {
		g.shards[i].callers = map[string]*caller{}
	}
	if config.Store != nil {
		g.limiter, g.begun, g.synced = sluice.New(config.Store), make(chan struct{}, 1), make(chan struct{})
		g.closing, g.close = context.WithCancel(context.Background())
		go g.sync()
	}
	return g, nil
}

// Namespace returns that of the callers.
func (g *Guard) Namespace() string { return g.config.Namespace }

func (g *Guard) shard(entity string) *shard {
	return &g.shards[maphash.String(g.seed, entity)%shardCount]
}

// Banned returns for how much longer an entity is banned, or 0 if it is not.
func (g *Guard) Banned(entity string) time.Duration { return g.left(entity, Ban) }

// Emergency reports whether an entity is under the stricter limit.
func (g *Guard) Emergency(entity string) bool { return g.left(entity, Emergency) > 0 }

// left returns for how much longer an entity is under a sanction. As long as there
// is none on anybody, it takes no lock.
func (g *Guard) left(entity string, kind Kind) time.Duration {
	if s, ok := (*g.known.Load())[shared{entity, kind}]; ok {
		return max(time.Until(s.Until), 0)
	}
	if until := g.until.Load(); until == 0 || int64(time.Since(g.origin)) >= until {
		return 0
	}
	sh := g.shard(entity)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c := sh.callers[entity]; c != nil {
		if s := c.sanction(kind); *s != nil {
			return max(time.Until((*s).Until), 0)
		}
	}
	return 0
}

// sanction returns where that of a kind is.
func (c *caller) sanction(kind Kind) **Sanction {
	if kind == Ban {
		return &c.ban
	}
	return &c.emergency
}

// Seen counts a request of an entity under the rules, and begins a sanction
// if it is time for one. A request that passes says something only under a rule for
// emergencies.
func (g *Guard) Seen(rules *policy.Abuse, entity string, refused bool) {
	if !refused && rules.Emergency == nil {
		return
	}
	now := time.Now()
	var begun []Sanction
	sh := g.shard(entity)
	sh.mu.Lock()
	c := sh.callers[entity]
	if c == nil {
		sh.makeRoom(g.most, now)
		c = &caller{first: now, window: now}
		sh.callers[entity] = c
	}
	c.last = now
	if s := c.refusal(rules.Ban, refused, now); s != nil {
		s.Entity = entity
		begun = append(begun, *s)
	}
	if s := c.request(rules.Emergency, now); s != nil {
		s.Entity = entity
		begun = append(begun, *s)
	}
	for _, s := range begun {
		end := int64(s.Until.Sub(g.origin))
		for until := g.until.Load(); until < end && !g.until.CompareAndSwap(until, end); until = g.until.Load() {
		}
	}
	sh.mu.Unlock()
	for _, s := range begun {
		g.tell(Event{Sanction: s})
		if g.limiter != nil {
			select {
			case g.begun <- struct{}{}:
			default: // it is about to look anyway
			}
		}
	}
}

// refusal counts refusals in windows that begin with a refusal.
func (c *caller) refusal(rule *policy.Ban, refused bool, now time.Time) *Sanction {
	if rule == nil || !refused || c.ban != nil && now.Before(c.ban.Until) {
		return nil
	}
	if now.Sub(c.refusedSince) >= rule.Within {
		c.refusedSince, c.refusals = now, 0
	}
	if c.refusals++; c.refusals < rule.Refusals {
		return nil
	}
	c.refusals, c.refusedSince = 0, time.Time{}
	c.ban = &Sanction{Kind: Ban, Reason: reasons[Ban], Since: now, Until: now.Add(rule.For)}
	return c.ban
}

// request counts requests in windows as long as the rule's AtLeast, and
// compares the one that runs with what is usual. Somebody who is not known
// for as long as the baseline has nothing usual yet.
func (c *caller) request(rule *policy.Emergency, now time.Time) *Sanction {
	if rule == nil || c.emergency != nil && now.Before(c.emergency.Until) {
		c.window, c.requests = now, 0 // what is forced on it is not usual
		return nil
	}
	length := max(rule.AtLeast.Period, time.Second)
	if gone := now.Sub(c.window); gone >= length {
		c.age(gone, length, rule.Baseline)
		c.window, c.requests = now, 0
	}
	c.requests++
	if now.Sub(c.first) < rule.Baseline || c.requests < float64(rule.AtLeast.Amount.Thousandths())/float64(sluice.Token) || c.requests < rule.Factor*c.usual {
		return nil
	}
	c.emergency = &Sanction{Kind: Emergency, Reason: reasons[Emergency], Since: now, Until: now.Add(rule.For)}
	return c.emergency
}

// age adds a finished window to what is usual: an average in which what is
// older than the baseline counts less and less, and idle time counts, too.
func (c *caller) age(gone, length, baseline time.Duration) {
	perWindow := c.requests * float64(length) / float64(gone)
	weight := 1 - math.Exp(-float64(gone)/float64(baseline))
	c.usual += (perWindow - c.usual) * weight
}

// makeRoom drops the longest idle of a few callers if there are too many.
// Those under a sanction stay, as long as others are to be found.
func (sh *shard) makeRoom(most int, now time.Time) {
	if len(sh.callers) < most {
		return
	}
	var victim string
	var oldest time.Time
	looked := 0
	for entity, c := range sh.callers {
		last := c.last
		if c.ban != nil && now.Before(c.ban.Until) || c.emergency != nil && now.Before(c.emergency.Until) {
			last = now
		}
		if looked == 0 || last.Before(oldest) {
			victim, oldest = entity, last
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(sh.callers, victim)
}

// List returns all sanctions in force, ordered by when they end.
func (g *Guard) List() []Sanction {
	all := g.local()
	for _, s := range *g.known.Load() {
		if time.Now().Before(s.Until) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Sanction) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Entity, b.Entity))
	})
	return all
}

// local returns the sanctions that only this node knows of.
func (g *Guard) local() []Sanction {
	now := time.Now()
	var all []Sanction
	for i := range g.shards {
		sh := &g.shards[i]
		sh.mu.Lock()
		for _, c := range sh.callers {
			for _, s := range [...]*Sanction{c.ban, c.emergency} {
				if s != nil && now.Before(s.Until) {
					all = append(all, *s)
				}
			}
		}
		sh.mu.Unlock()
	}
	return all
}

// forget takes a sanction off the list of those that only this node knows of.
func (g *Guard) forget(s *Sanction) {
	sh := g.shard(s.Entity)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c := sh.callers[s.Entity]; c != nil {
		*c.sanction(s.Kind) = nil
	}
}

// Lift ends every sanction on an entity, on all nodes, in somebody's name, and
// reports whether there was one. What was counted so far is forgotten here.
func (g *Guard) Lift(ctx context.Context, entity, by string) (bool, error) {
	now := time.Now()
	lifted, err := g.liftShared(ctx, entity)
	if err != nil {
		return false, err
	}
	sh := g.shard(entity)
	sh.mu.Lock()
	c := sh.callers[entity]
	delete(sh.callers, entity)
	sh.mu.Unlock()
	if c != nil {
		for _, s := range [...]*Sanction{c.ban, c.emergency} {
			if s != nil && now.Before(s.Until) {
				lifted = append(lifted, *s)
			}
		}
	}
	for _, s := range lifted {
		g.tell(Event{Sanction: s, Lifted: true, By: by})
	}
	return len(lifted) > 0, nil
}

func (g *Guard) tell(e Event) {
	what := "sanction begins"
	if e.Lifted {
		what = "sanction lifted"
	}
	g.config.Log.Warn(what, "entity", Mask(e.Entity, 4), "kind", e.Kind, "reason", e.Reason, "until", e.Until, "by", e.By)
	if g.config.Audit != nil {
		g.config.Audit(e)
	}
}
