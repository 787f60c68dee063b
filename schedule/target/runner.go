package target

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/once"
	"github.com/sluice-go/sluice/internal/webhook"
	"github.com/sluice-go/sluice/schedule"
)

// Config configures a runner. Slots and Limiter must be given.
type Config struct {
	// Slots has the plans.
	Slots *schedule.Scheduler

	// Limiter holds the buckets of the targets' rates. Its store has to be
	// shared by all servers that share the plans.
	Limiter *sluice.Limiter

	// Keys seal secrets and open them. Nil means that targets have none.
	Keys *Keys

	// Allow are hosts, with a port or for all ports, that may be called though
	// their addresses are not public.
	Allow []string

	// Log gets what operators look for. Nil means slog.Default.
	Log *slog.Logger
}

// Runner calls the targets of all plans that have one. Any number of runners, in
// any number of processes, share the work.
type Runner struct {
	config    Config
	guard     *guard
	transport once.Transport
	changed   chan struct{}

	mu      sync.Mutex
	running map[planKey]*running
	ending  sync.WaitGroup

	calls             [4]atomic.Int64 // by outcome
	targets, unusable atomic.Int64
	inDoubt           atomic.Int64
}

// planKey names a plan.
type planKey struct{ namespace, plan string }

// running is the dispatcher of a plan. A target that cannot be used has none.
type running struct {
	slots  *schedule.Scheduler
	target *schedule.Target
	stop   context.CancelFunc // nil without a dispatcher
}

// Stats are counts since the runner was made, and what it has now.
type Stats struct {
	Targets  int64            // plans whose targets are called
	Unusable int64            // plans whose targets cannot be called by this runner
	InDoubt  int64            // events that were unknown when it last looked, up to 1000 of a plan
	Calls    map[string]int64 // by outcome: done, refused, not_run or unknown
}

var outcomes = [...]string{once.Accepted: "done", once.Refused: "refused", once.NotRun: "not_run", once.Unknown: "unknown"}

const (
	lookEvery  = 5 * time.Second
	countEvery = time.Minute
	minLife    = 30 * time.Second
	spareLife  = 20 * time.Second // of a claim, beyond the time-out of a call
	pageSize   = 1000
)

// New returns a runner.
func New(config Config) (*Runner, error) {
	switch {
	case config.Slots == nil:
		return nil, badinput.Field("slots", nil, "must be given")
	case config.Limiter == nil:
		return nil, badinput.Field("limiter", nil, "must be given")
	}
	for _, name := range config.Allow {
		if name == "" || strings.ContainsAny(name, "/@? ") {
			return nil, badinput.Field("allow", name, "must be a host or host:port")
		}
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	r := &Runner{config: config, guard: newGuard(config.Allow), changed: make(chan struct{}, 1), running: map[planKey]*running{}}
	r.transport = r.guard.transport()
	return r, nil
}

// Stats returns the runner's counts.
func (r *Runner) Stats() Stats {
	s := Stats{Targets: r.targets.Load(), Unusable: r.unusable.Load(), InDoubt: r.inDoubt.Load(), Calls: map[string]int64{}}
	for i, name := range outcomes {
		s.Calls[name] = r.calls[i].Load()
	}
	return s
}

// Seal returns the target of a plan as it can be stored: its secrets sealed. An
// address that this runner would refuse to call is an error, if it is known.
func (r *Runner) Seal(namespace, plan string, t *schedule.Target) (*schedule.Target, error) {
	if to, err := url.Parse(t.URL); err == nil {
		address := net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), map[string]string{"http": "80", "https": "443"}[to.Scheme]))
		ip, err := netip.ParseAddr(to.Hostname())
		private := err == nil && webhook.Public("", netip.AddrPortFrom(ip, 0).String(), nil) != nil || strings.EqualFold(to.Hostname(), "localhost")
		if private && !r.guard.allowed(address) {
			return nil, badinput.Field("target.url", t.URL, "has an address that is not public: start all servers with --target-allow "+to.Host)
		}
	}
	return r.config.Keys.Seal(namespace, plan, t)
}

// Run calls targets until ctx ends, and then waits for the calls under way.
func (r *Runner) Run(ctx context.Context) {
	r.config.Slots.Watch(func() {
		select {
		case r.changed <- struct{}{}:
		default: // it is going to look
		}
	})
	look, count := time.NewTicker(lookEvery), time.NewTicker(countEvery)
	defer look.Stop()
	defer count.Stop()
	for ctx.Err() == nil {
		r.look(ctx)
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-look.C:
		case <-count.C:
			r.count(ctx)
		}
	}
	r.ending.Wait()
	r.transport.CloseIdleConnections()
}

// look makes the dispatchers follow the plans.
func (r *Runner) look(ctx context.Context) {
	plans := map[planKey]*running{}
	err := r.config.Slots.Everywhere(ctx, func(slots *schedule.Scheduler) error {
		for after := ""; ; {
			page, err := slots.Plans(ctx, after, pageSize)
			if err != nil {
				return err
			}
			for i := range page {
				after = page[i].Name
				if page[i].Target != nil {
					plans[planKey{slots.Namespace(), after}] = &running{slots: slots, target: page[i].Target}
				}
			}
			if len(page) < pageSize {
				return nil
			}
		}
	})
	if err != nil {
		if ctx.Err() == nil {
			r.config.Log.Warn("the plans could not be read; targets are called as before", "error", err)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, now := range r.running {
		if p := plans[at]; p == nil || !reflect.DeepEqual(now.target, p.target) {
			r.end(at)
		}
	}
	for at, p := range plans {
		if r.running[at] == nil {
			r.start(ctx, at, p)
		}
	}
}

// end stops the dispatcher of a plan, which finishes its calls.
func (r *Runner) end(at planKey) {
	if stop := r.running[at].stop; stop != nil {
		stop()
		r.targets.Add(-1)
	} else {
		r.unusable.Add(-1)
	}
	delete(r.running, at)
}

// start runs the dispatcher of a plan.
func (r *Runner) start(ctx context.Context, at planKey, now *running) {
	d, err := r.dispatcher(at, now)
	r.running[at] = now
	log := r.config.Log.With("namespace", at.namespace, "plan", at.plan)
	if err != nil {
		r.unusable.Add(1)
		log.Error("the target of a plan cannot be called by this server", "error", err)
		return
	}
	ctx, now.stop = context.WithCancel(ctx)
	r.targets.Add(1)
	log.Info("the target of a plan is called")
	r.ending.Go(func() {
		defer now.stop()
		if err := d.Run(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the target of a plan is not called for a while", "error", err)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.running[at] == now {
				r.end(at) // and look starts it again
			}
		}
	})
}

func (r *Runner) dispatcher(at planKey, now *running) (*schedule.Dispatcher, error) {
	t := now.target
	secrets, err := r.config.Keys.openAll(at.namespace, at.plan, t)
	if err != nil {
		return nil, err
	}
	c := &caller{Target: t, opened: secrets, namespace: at.namespace, transport: r.transport, saw: func(o once.Outcome) { r.calls[o].Add(1) }}
	return now.slots.NewDispatcher(schedule.DispatcherConfig{
		Plan: at.plan, Work: c.call, Limiter: r.config.Limiter, Limit: t.Rate, Pacing: schedule.ByAnswer,
		Timeout: time.Duration(t.Timeout), Once: t.Repeat != schedule.RepeatSafe,
		Concurrency: t.Concurrency, MaxAttempts: t.Attempts, Backoff: time.Duration(t.Backoff), MaxBackoff: time.Duration(t.MaxBackoff),
		Life: max(minLife, time.Duration(t.Timeout)+spareLife),
	})
}

// count looks how many events are unknown.
func (r *Runner) count(ctx context.Context) {
	r.mu.Lock()
	plans := maps.Clone(r.running)
	r.mu.Unlock()
	n := 0
	for at, now := range plans {
		page, err := now.slots.InDoubt(ctx, at.plan, schedule.Position{}, pageSize)
		if err != nil {
			return // the next time
		}
		n += len(page.Slots)
	}
	r.inDoubt.Store(int64(n))
}
