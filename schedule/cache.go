package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

const (
	// DefaultCacheTTL is for how long a plan is used before it is read again.
	DefaultCacheTTL = 5 * time.Second

	// maxCached bounds the plans that are remembered.
	maxCached = 1000
)

// planCache remembers plans. A search under a version that is not the active
// one any more is refused by the store, so a new version counts at once; the
// cache only saves reading.
type planCache struct {
	store     Store
	namespace string
	ttl       time.Duration
	clock     *clock
	log       *slog.Logger
	stats     *Stats

	mu    sync.Mutex
	plans map[string]*cachedPlan
	epoch int64 // rises with each flush
}

// cachedPlan is a plan and what was learned about its windows.
type cachedPlan struct {
	ActivePlan
	grid   grid
	loaded time.Time

	mu       sync.Mutex
	full     fullness
	first    int64 // where the last search began,
	until    int64 // and its bound
	prepared int   // how often windows were prepared
}

// get is the plan of that name.
func (c *planCache) get(ctx context.Context, name string) (*cachedPlan, error) {
	c.mu.Lock()
	p, epoch := c.plans[name], c.epoch
	c.mu.Unlock()
	if p != nil && time.Since(p.loaded) < c.ttl {
		c.stats.cacheHits.Add(1)
		return p, nil
	}
	c.stats.cacheMisses.Add(1)
	there, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	c.clock.saw(there)
	active, err := activePlan(ctx, c.store, c.namespace, name)
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if p != nil && p.Plan.Version == active.Plan.Version {
		level = slog.LevelDebug // nothing new
	}
	c.log.Log(ctx, level, fmt.Sprintf("Config cache miss for %s, loaded from DB", name), "plan", name, "version", active.Plan.Version)
	if p, err = newCachedPlan(active); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch { // else what was read may be from before the flush
		if len(c.plans) >= maxCached || c.plans == nil {
			c.plans = map[string]*cachedPlan{}
		}
		c.plans[name] = p
	}
	return p, nil
}

// activePlan is the active version of a plan.
func activePlan(ctx context.Context, store Store, namespace, name string) (*ActivePlan, error) {
	plans, err := store.Plans(ctx, PlanQuery{Namespace: namespace, Name: name, Max: 1})
	if err != nil {
		return nil, err
	}
	if len(plans) == 0 {
		return nil, NoPlan(name)
	}
	return &plans[0], nil
}

func newCachedPlan(active *ActivePlan) (*cachedPlan, error) {
	p := &cachedPlan{ActivePlan: *active, loaded: time.Now()}
	p.grid = grid{eras: active.Eras, max: active.Plan.MaxPerWindow}
	if active.Plan.Calendar != nil {
		h, err := active.Plan.Calendar.compile()
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", active.Plan.Name, err)
		}
		p.grid.hours = h
	}
	return p, nil
}

// flush forgets all plans.
func (c *planCache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans, c.epoch = nil, c.epoch+1
}

// drop forgets a plan that turned out to be old.
func (c *planCache) drop(p *cachedPlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plans[p.Plan.Name] == p {
		delete(c.plans, p.Plan.Name)
	}
}

// search is where to look for room for something wanted at t, and before end. If
// only a part of the window can be used that t is in, share is how much.
func (p *cachedPlan) search(t, end int64) (first Window, from, until, earliest int64, share float64, err error) {
	w, earliest, ok := p.grid.window(t)
	if !ok {
		return w, 0, 0, 0, 0, badinput.Field("at", time.UnixMicro(t).UTC(), "the calendar of plan "+p.Plan.Name+" opens at no time in the year after it")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Start != p.first || p.until == 0 {
		p.first, p.until = w.Start, p.grid.skip(w.Start, p.Plan.Headroom+1)
	}
	from, until, share = p.full.skip(w.Start), p.until, 1
	if end == forever {
		return w, from, until, earliest, share, nil
	}
	switch last, _, ok := p.grid.window(end); {
	case earliest >= end:
		until = w.Start // only to find the slot that the event may have
	case ok && last.Start == w.Start:
		until, share = w.Start+1, w.share(earliest, end)
	case ok:
		until = min(until, last.Start)
	}
	return w, from, until, earliest, share, nil
}

// learn takes from how a search ended what helps the next one.
func (p *cachedPlan) learn(from int64, f *Found) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.First != 0 {
		p.full.add(from, f.First)
	}
}

// forgetFull lets the next search find room that was given back.
func (p *cachedPlan) forgetFull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = fullness{}
}
