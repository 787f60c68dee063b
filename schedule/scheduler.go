package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/combine"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Scheduler gives events their slots. It is safe for concurrent use; any
// number of them, in any number of processes, may share a store.
type Scheduler struct {
	store     Store
	namespace string
	log       *slog.Logger
	clock     clock
	plans     planCache
	stats     *Stats
	contended quiet
	queue     combine.Lanes[*waiter]
	retention Retention
	reclaim   bool
	sweeper   sweeper
	family    *family

	stop    context.CancelFunc // of what Close ends
	stopped sync.WaitGroup
}

// Config configures a scheduler. All but Store may be left out.
type Config struct {
	// Store keeps plans and slots. Closing it stays the caller's business.
	Store Store

	// Namespace keeps the plans and events of tenants apart.
	Namespace string

	// CacheTTL is for how long a plan is used before it is read again. 0
	// means 5 s. A new version counts at once anyway.
	CacheTTL time.Duration

	// Retention is how long finished slots and the audit log are kept.
	Retention Retention

	// Sweep has the scheduler remove by itself, every ten minutes, what is
	// older than that, and look for leaked slots, until Close, in all namespaces
	// of the store. It is for processes without a [Dispatcher], which does it in
	// its own namespace in any case.
	Sweep bool

	// Reclaim has leaked slots that are found by the way reclaimed, as
	// [Scheduler.Reconcile] with Overdue does. Otherwise they are logged.
	Reclaim bool

	// Log gets what operators look for. Nil means slog.Default.
	Log *slog.Logger

	// Clock replaces the store's time, for tests.
	Clock func() time.Time
}

// New returns a scheduler. With [Config.Sweep] it is to be closed before the
// store.
func New(config Config) (*Scheduler, error) {
	if config.Store == nil {
		return nil, &sluice.FieldError{Field: "store", Reason: "must be set"}
	}
	if err := checkNamespace(config.Namespace); err != nil {
		return nil, err
	}
	if config.CacheTTL == 0 {
		config.CacheTTL = DefaultCacheTTL
	}
	if config.CacheTTL < 0 || config.CacheTTL > time.Hour {
		return nil, badinput.Field("cacheTTL", config.CacheTTL, "must be above 0 and at most 1h")
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	retention, err := config.Retention.withDefaults()
	if err != nil {
		return nil, err
	}
	config.Retention = retention
	f := &family{config: config, stats: newStats(), members: map[string]*Scheduler{}}
	s := f.member(config.Namespace)
	config.Store.Watch(f.flush)
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	if config.Sweep {
		s.stopped.Go(func() { s.sweepRegularly(background, true) })
	}
	return s, nil
}

// Stats are the scheduler's counts.
func (s *Scheduler) Stats() *Stats { return s.stats }

// Plan is the active version of a plan. Empty means "default".
func (s *Scheduler) Plan(ctx context.Context, name string) (Plan, error) {
	if name == "" {
		name = DefaultPlan
	}
	if err := checkPlanName(name); err != nil {
		return Plan{}, err
	}
	active, err := activePlan(ctx, s.store, s.namespace, name)
	if err != nil {
		return Plan{}, err
	}
	return active.Plan, nil
}

// Plans are the active versions of the plans after a name, in order of their
// names: 1 to 1000 of them, 0 means 100.
func (s *Scheduler) Plans(ctx context.Context, after string, max int) ([]Plan, error) {
	return s.listPlans(ctx, PlanQuery{After: after, Max: max})
}

// Versions are the versions of a plan, the newest first: 1 to 1000 of them, 0
// means 100.
func (s *Scheduler) Versions(ctx context.Context, name string, max int) ([]Plan, error) {
	versions, err := s.listPlans(ctx, PlanQuery{Name: name, Versions: true, Max: max})
	if err == nil && len(versions) == 0 {
		err = NoPlan(excerpt.Of(name))
	}
	return versions, err
}

func (s *Scheduler) listPlans(ctx context.Context, q PlanQuery) (plans []Plan, err error) {
	if q.Max, err = page("max", q.Max); err != nil {
		return nil, err
	}
	q.Namespace = s.namespace
	found, err := s.store.Plans(ctx, q)
	for i := range found {
		plans = append(plans, found[i].Plan)
	}
	return plans, err
}

// SetPlan makes p the active version of its plan and answers it with its
// number. Nothing that is scheduled moves: windows keep what they have, those
// with more than the new maximum count as full, and a new window size applies
// at once except where windows have events. If p.Version is not 0, it must be
// the active version, else the answer is [ErrConflict].
func (s *Scheduler) SetPlan(ctx context.Context, p Plan) (Plan, error) {
	p, err := p.withDefaults()
	if err != nil {
		return Plan{}, err
	}
	now := s.clock.now()
	if p.Calendar != nil {
		h, err := p.Calendar.compile()
		if err != nil {
			return Plan{}, err
		}
		if _, _, ok := h.next(now.UnixMicro()); !ok {
			return Plan{}, badinput.Field("calendar", p.Name, "opens at no time in the next year")
		}
	}
	saved, before, err := s.store.ChangePlan(ctx, PlanChange{Namespace: s.namespace, Plan: p, Now: now})
	if err != nil {
		return Plan{}, err
	}
	s.plans.flush()
	s.log.Info(fmt.Sprintf("Config updated: %s maxPerWindow=%d->%d", saved.Name, before.MaxPerWindow, saved.MaxPerWindow),
		"plan", saved.Name, "version", saved.Version, "windowSize", saved.WindowSize, "headroom", saved.Headroom)
	return saved, nil
}

// Pause stops dispatchers from claiming slots of a plan; those they hold run
// to their end. Slots are still assigned. Resume lets them go on.
func (s *Scheduler) Pause(ctx context.Context, name string) error { return s.pause(ctx, name, true) }

// Resume undoes Pause.
func (s *Scheduler) Resume(ctx context.Context, name string) error { return s.pause(ctx, name, false) }

func (s *Scheduler) pause(ctx context.Context, name string, paused bool) error {
	if err := checkPlanName(name); err != nil {
		return err
	}
	_, _, err := s.store.ChangePlan(ctx, PlanChange{Namespace: s.namespace, Plan: Plan{Name: name, Paused: paused}, Pause: true, Now: s.clock.now()})
	return err
}

// Namespace is whose plans and events they are.
func (s *Scheduler) Namespace() string { return s.namespace }

// Watch calls changed when plans were changed or flushed, by anyone, until the
// store is closed. It may miss some, and changed must not block.
func (s *Scheduler) Watch(changed func()) { s.store.Watch(changed) }

// Flush makes every node forget its cached plans.
func (s *Scheduler) Flush(ctx context.Context) error {
	s.family.flush()
	return s.store.Flush(ctx)
}

// Slot is the slot of an event.
func (s *Scheduler) Slot(ctx context.Context, event string) (Slot, error) {
	if err := checkEvent(event); err != nil {
		return Slot{}, err
	}
	slots, err := s.store.Slots(ctx, Selection{Namespace: s.namespace, Event: event, Max: 1})
	if err == nil && len(slots) == 0 {
		err = notFound("event", event)
	}
	if err != nil {
		return Slot{}, err
	}
	s.atWork(slots)
	return slots[0], nil
}

// atWork shows slots as running of which it is unknown how they will end, but
// which may be under way.
func (s *Scheduler) atWork(slots []Slot) {
	now := s.clock.now()
	for i := range slots {
		if slots[i].State == Unknown && slots[i].Due.After(now) {
			slots[i].State = Running
		}
	}
}

// Cancel takes back a slot that nobody has started, that has failed or is
// [Unknown]. Its room is free again if nobody has started it, and the event stays cancelled: asking for
// it again answers so. Cancelling twice is no error; a slot that is running or
// done is [ErrConflict].
func (s *Scheduler) Cancel(ctx context.Context, event, reason string) (Slot, error) {
	return s.withdraw(ctx, event, Change{Detail: trim(reason)})
}

func (s *Scheduler) withdraw(ctx context.Context, event string, c Change) (Slot, error) {
	if err := checkEvent(event); err != nil {
		return Slot{}, err
	}
	slot, err := s.store.Change(ctx, s.change(event, Withdrawn, c))
	if err == nil {
		s.roomIn(slot.Plan)
	}
	return slot, err
}

// roomIn lets the next search see room that was given back.
func (s *Scheduler) roomIn(plan string) {
	s.plans.mu.Lock()
	p := s.plans.plans[plan]
	s.plans.mu.Unlock()
	if p != nil {
		p.forgetFull()
	}
}

// Audit reads the audit log of a plan or an event, the newest entry first.
func (s *Scheduler) Audit(ctx context.Context, q AuditQuery) ([]Entry, error) {
	var err error
	if q.Max, err = page("max", q.Max); err != nil {
		return nil, err
	}
	if (q.Event == "") == (q.Plan == "") {
		return nil, badinput.Field("audit", q.Event+q.Plan, "must name either an event or a plan")
	}
	return s.store.Audit(ctx, s.namespace, q)
}

// trim bounds what is written into the audit log.
func trim(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), maxDetail)], "\x00", ""), "")
}

// quiet lets a message pass once a second, and counts those between.
type quiet struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (q *quiet) pass() (skipped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.last.IsZero() || now.Sub(q.last) >= time.Second {
		skipped, q.last, q.skipped = q.skipped, now, 0
		return skipped, true
	}
	q.skipped++
	return 0, false
}

func isStale(err error) bool { return errors.Is(err, ErrStale) }
