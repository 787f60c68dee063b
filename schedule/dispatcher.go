package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Job is one execution of a slot.
type Job struct {
	Slot

	// Granted is when the limit lets it start, in the limit's store's time.
	Granted time.Time
}

// Worker does the work of a slot. An error has it tried again later, unless
// it is [Permanent] or [OutcomeUnknown]. Its context ends when the claim on the slot is lost: then
// somebody else may be doing the work already. Work is done at least once, unless
// the dispatcher is told otherwise ([DispatcherConfig.Once]); a
// worker that writes somewhere should send Job.Fence along, and what it writes
// to should refuse a lower one than it has seen.
type Worker func(ctx context.Context, job *Job) error

// Permanent marks an error that trying again would not cure.
func Permanent(err error) error { return &permanentError{err} }

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// OutcomeUnknown marks the error of work that may have been executed all the same,
// and is not to be repeated: the event is [Unknown] until somebody settles it.
func OutcomeUnknown(err error) error { return &unknownError{err} }

type unknownError struct{ error }

func (e *unknownError) Unwrap() error { return e.error }

// DispatcherConfig says what a dispatcher does. Work and Limiter must be
// given.
type DispatcherConfig struct {
	// Plan is whose slots are dispatched. Empty means "default".
	Plan string

	// Work does the work.
	Work Worker

	// Limiter holds the bucket that all dispatchers share, so its store has
	// to be one that they share.
	Limiter *sluice.Limiter

	// Limit is how often work may start. The default, 50/s burst 1, starts
	// at most 50 in any second; with a burst of n it would be n-1 more.
	Limit sluice.Limit

	// Pacing is what the limit counts: starts by the clock, or, for a receiver
	// that counts strictly, starts and their answers.
	Pacing Pacing

	// Timeout is how long work may take: then its context ends. 0 means 10 s if
	// Pacing is ByAnswer, and otherwise for ever.
	Timeout time.Duration

	// Key is the shared bucket. The default is of the plan and the pacing.
	Key sluice.Key

	// Concurrency is how much work this dispatcher does at once. 0 means 64.
	Concurrency int

	// Life is how long a claim stands unless it is extended. 0 means 30 s.
	Life time.Duration

	// MaxAttempts is how often a slot is tried. 0 means 5.
	MaxAttempts int

	// Backoff is the pause before the second attempt; it doubles for each
	// one after, up to MaxBackoff. 0 means 1 s, and 5 minutes.
	Backoff    time.Duration
	MaxBackoff time.Duration

	// Once has no work repeated that may have been executed. Before it begins
	// the event is noted to be [Unknown], which costs a write, and so it stays if
	// the process dies, the worker panics or returns an [OutcomeUnknown]. Any
	// other error says that the work was not executed. The context of the worker
	// ends after Life.
	Once bool

	// BreakAfter is how many failures in a row have the dispatcher take what it
	// calls for down. Then it tries one slot at a time, with pauses from a
	// second up to a minute, until one succeeds, and those attempts do not
	// count. Permanent errors are no such failures. 0 means 10.
	BreakAfter int

	// Name is the worker's name in the audit log. Empty means the host's
	// name, the process id and a random part.
	Name string
}

const (
	// claimAhead is for how much time slots are claimed at once: as long a
	// pause may take to have its effect.
	claimAhead = 500 * time.Millisecond

	// lookEvery is how often to look for slots that were assigned for now.
	lookEvery = 250 * time.Millisecond
)

func (c DispatcherConfig) withDefaults(namespace string) (DispatcherConfig, error) {
	c.Plan = cmp.Or(c.Plan, DefaultPlan)
	if c.Limit == (sluice.Limit{}) {
		c.Limit = sluice.Per(50, time.Second).WithBurst(1)
	}
	if c.Key == (sluice.Key{}) {
		c.Key = sluice.Key{Namespace: namespace, Entity: "plan:" + c.Plan, Resource: "slots", Limit: "dispatch"}
		if c.Pacing == ByAnswer {
			c.Key.Limit = "permits"
		}
	}
	if c.Pacing == ByAnswer {
		c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	}
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	c.Life = cmp.Or(c.Life, 30*time.Second)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.BreakAfter = cmp.Or(c.BreakAfter, 10)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 5*time.Minute)
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Name = fmt.Sprintf("%.100s/%d/%s", host, os.Getpid(), rand.Text()[:8])
	}
	switch {
	case c.Work == nil:
		return c, badinput.Field("work", nil, "must be given")
	case c.Limiter == nil:
		return c, badinput.Field("limiter", nil, "must be given")
	case c.Limit.Algorithm != sluice.TokenBucket:
		return c, badinput.Field("limit", c.Limit, "must be a rate such as 50/s burst 1, not a window; Concurrency bounds how much runs at once")
	case c.Pacing > ByAnswer:
		return c, badinput.Field("pacing", c.Pacing, "must be ByClock or ByAnswer")
	case c.Timeout < 0 || c.Timeout > 24*time.Hour:
		return c, badinput.Field("timeout", c.Timeout, "must be at most 24h")
	case c.Concurrency < 1 || c.Concurrency > 10_000:
		return c, badinput.Field("concurrency", c.Concurrency, "must be 1 to 10000")
	case c.Life < time.Second || c.Life > 24*time.Hour:
		return c, badinput.Field("life", c.Life, "must be 1s to 24h")
	case c.MaxAttempts < 1 || c.MaxAttempts > 1000:
		return c, badinput.Field("maxAttempts", c.MaxAttempts, "must be 1 to 1000")
	case c.BreakAfter < 1:
		return c, badinput.Field("breakAfter", c.BreakAfter, "must be at least 1")
	case c.Backoff < 0 || c.MaxBackoff < c.Backoff || c.MaxBackoff > 24*time.Hour:
		return c, badinput.Field("maxBackoff", c.MaxBackoff, "must be at least the first back-off and at most 24h")
	}
	if err := c.Limit.Validate(); err != nil {
		return c, err
	}
	if _, period := receiverLimit(c.Limit); c.Pacing == ByAnswer && period > 24*time.Hour {
		return c, badinput.Field("limit", c.Limit, "must be at least one a day to be counted by answers")
	}
	if err := checkPlanName(c.Plan); err != nil {
		return c, err
	}
	return c, checkWorker(c.Name)
}

// prefetch is how many slots are claimed at once.
func (c *DispatcherConfig) prefetch() int {
	n := int64(1)
	if c.Limit.Period > 0 {
		n = int64(float64(c.Limit.Amount.Thousandths()) / float64(sluice.Token) * float64(claimAhead) / float64(c.Limit.Period))
	}
	return int(min(max(n, 1), int64(c.Concurrency)))
}

// Dispatcher runs work when its slots are due. Any number of dispatchers, in
// any number of processes, share a plan's slots; together they start work no
// faster than the limit.
type Dispatcher struct {
	s      *Scheduler
	config DispatcherConfig
	places chan struct{} // one for each piece of work at a time
	pace   pace

	mu      sync.Mutex
	active  map[Claim]context.CancelCauseFunc
	breaker breaker

	running sync.WaitGroup
}

// NewDispatcher is a dispatcher of the scheduler's slots.
func (s *Scheduler) NewDispatcher(c DispatcherConfig) (*Dispatcher, error) {
	c, err := c.withDefaults(s.namespace)
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{
		s: s, config: c, places: make(chan struct{}, c.Concurrency), active: map[Claim]context.CancelCauseFunc{},
		breaker: breaker{after: c.BreakAfter},
	}
	if d.pace = (*clockPace)(d); c.Pacing == ByAnswer {
		d.pace = newPermits(&d.config, &s.clock, s.log)
	}
	return d, nil
}

// Run dispatches until ctx ends. Then it starts nothing more, gives back what
// it has claimed and not started, and waits for the work that is running. Now
// and then it does what [Scheduler.Sweep] does. It is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if _, err := d.s.plans.get(ctx, d.config.Plan); err != nil {
		return err
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { d.beat(beating) })
	heart.Go(func() { d.s.sweepRegularly(ctx, false) })
	heart.Go(func() { d.pace.keep(beating) })
	d.loop(ctx)
	d.running.Wait()
	stop()
	heart.Wait()
	return nil
}

func (d *Dispatcher) loop(ctx context.Context) {
	var claimed []Slot
	defer func() {
		for i := range claimed {
			d.release(ctx, &claimed[i])
		}
	}()
	for ctx.Err() == nil {
		hours, ok := d.mayStart(ctx)
		if !ok {
			for i := range claimed {
				d.release(ctx, &claimed[i])
			}
			claimed = nil
			continue
		}
		if len(claimed) == 0 {
			if claimed = d.claim(ctx); len(claimed) == 0 {
				d.rest(ctx)
				continue
			}
		}
		select {
		case d.places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wait, granted, ok := d.pace.grant(ctx)
		if !ok {
			<-d.places
			return
		}
		job := &Job{Slot: claimed[0], Granted: granted}
		claimed = claimed[1:]
		d.start(ctx, job, wait, hours)
	}
}

// mayStart reports whether the next slot may be tried, and returns the plan's
// hours. If not it has waited a while: the plan is closed, or what the dispatcher
// calls is down, and a probe is running or comes later.
func (d *Dispatcher) mayStart(ctx context.Context) (*hours, bool) {
	hours, closed, err := d.s.closed(ctx, d.config.Plan, d.config.Name)
	if err != nil {
		if ctx.Err() == nil {
			d.s.log.Warn("the plan could not be read; nothing starts until it can", "plan", d.config.Plan, "error", err)
		}
		closed = lookEvery
	}
	d.mu.Lock()
	wait, open := d.breaker.open(time.Now())
	d.mu.Unlock()
	if closed == 0 && (!open || wait <= 0 && len(d.places) == 0) {
		return hours, true
	}
	backoff.Sleep(ctx, min(max(wait, closed, time.Millisecond), lookEvery))
	return nil, false
}

// claim takes the next slots that are due.
func (d *Dispatcher) claim(ctx context.Context) []Slot {
	now := d.s.clock.now()
	most := d.config.prefetch()
	d.mu.Lock()
	if _, open := d.breaker.open(time.Now()); open {
		most = 1
	}
	d.mu.Unlock()
	slots, err := d.s.store.Claim(ctx, Claiming{
		Namespace: d.s.namespace, Plan: d.config.Plan, Worker: d.config.Name,
		Now: now, Until: now.Add(d.config.Life), Max: most,
	})
	if err != nil {
		if ctx.Err() == nil {
			d.s.log.Warn("slots could not be claimed; trying again", "plan", d.config.Plan, "error", err)
		}
		return nil
	}
	var good []Slot
	for i := range slots {
		// Each attempt may have ended with the death of its worker.
		if slots[i].Attempts > d.config.MaxAttempts {
			d.finish(ctx, &Job{Slot: slots[i]}, GaveUp, time.Time{}, fmt.Sprintf("given up after %d attempts", d.config.MaxAttempts))
			continue
		}
		d.hold(&slots[i])
		good = append(good, slots[i])
	}
	return good
}

// rest waits until the next slot is due, but not for long: others may be
// assigned meanwhile.
func (d *Dispatcher) rest(ctx context.Context) {
	wait := lookEvery
	next, err := d.s.store.Slots(ctx, Selection{Namespace: d.s.namespace, Plan: d.config.Plan, Order: ByDue, Max: 1})
	if err == nil && len(next) > 0 {
		if until := next[0].Due.Sub(d.s.clock.now()); until > 0 {
			wait = min(wait, until+time.Millisecond)
		}
	}
	backoff.Sleep(ctx, wait)
}

// start runs a job once its time has come, unless the plan has closed by then.
func (d *Dispatcher) start(ctx context.Context, job *Job, wait time.Duration, hours *hours) {
	due := time.Now().Add(wait)
	d.running.Go(func() {
		defer func() { <-d.places }()
		if !backoff.Sleep(ctx, time.Until(due)) || !hours.open(d.s.clock.now()) {
			d.pace.unused()
			d.release(ctx, &job.Slot)
			return
		}
		d.run(ctx, job)
	})
}

// run does the work and notes how it went.
func (d *Dispatcher) run(ctx context.Context, job *Job) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	if !d.onLoss(&job.Slot, cancel) {
		d.pace.unused()
		return // the claim was lost while it waited
	}
	started := d.s.clock.now()
	if d.config.Once {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, d.config.Life)
		defer done()
		if !d.begin(ctx, job, started) {
			d.pace.unused()
			d.release(ctx, &job.Slot)
			return
		}
	}
	err := d.work(ctx, job)
	d.pace.answered()
	action, due, detail := Finished, time.Time{}, ""
	_, permanent := errors.AsType[*permanentError](err)
	_, unknown := errors.AsType[*unknownError](err)
	down := d.saw(err != nil && !permanent)
	if err != nil {
		detail = trim(err.Error())
		switch {
		case unknown:
			action, due = Doubted, d.s.clock.now()
		case down: // it does not count
			action, due = Released, d.s.clock.now().Add(d.pauseFor(1, err))
		case permanent || job.Attempts >= d.config.MaxAttempts:
			action = GaveUp
		default:
			action, due = Retried, d.s.clock.now().Add(d.pauseFor(job.Attempts, err))
		}
		d.s.log.Warn("work on a slot failed", "plan", job.Plan, "event", job.Event, "attempt", job.Attempts, "next", action, "error", err)
	}
	d.finishStarted(ctx, job, action, due, detail, started)
}

// saw tells the breaker how an attempt ended, and reports whether it is open.
func (d *Dispatcher) saw(failed bool) bool {
	d.mu.Lock()
	open, changed := d.breaker.saw(failed, time.Now())
	d.mu.Unlock()
	switch {
	case changed && open:
		d.s.stats.broken.Add(1)
		d.s.log.Error("what the plan's work calls seems to be down; slots wait, and one at a time is tried", "plan", d.config.Plan)
	case changed:
		d.s.stats.broken.Add(-1)
		d.s.log.Info("what the plan's work calls is up again", "plan", d.config.Plan)
	}
	return open
}

// pauseFor is the pause after so many attempts, or longer if the error says so.
func (d *Dispatcher) pauseFor(attempts int, err error) time.Duration {
	var after interface{ RetryAfter() time.Duration }
	if errors.As(err, &after) {
		return max(min(after.RetryAfter(), d.config.MaxBackoff), d.pause(attempts))
	}
	return d.pause(attempts)
}

// work does the work; a panic is an error.
func (d *Dispatcher) work(ctx context.Context, job *Job) (err error) {
	if d.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.config.Timeout)
		defer cancel()
	}
	defer func() {
		if timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); ctx.Err() != nil || ok && timeout.Timeout() {
			d.s.stats.abandoned.Add(1)
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			if err = fmt.Errorf("the worker panicked: %v", p); d.config.Once {
				err = OutcomeUnknown(err)
			}
		}
	}()
	return d.config.Work(ctx, job)
}

// pause returns how long to wait after so many attempts: as configured, or up
// to a quarter longer, so that not all come back at once.
func (d *Dispatcher) pause(attempts int) time.Duration {
	pause := backoff.Pauses{First: d.config.Backoff, Max: d.config.MaxBackoff}.After(attempts)
	return pause*3/4 + backoff.Jitter(pause/2)
}
