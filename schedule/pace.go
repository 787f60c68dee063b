package schedule

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// Pacing is what a dispatcher's limit counts.
type Pacing uint8

const (
	// ByClock counts starts, in the store's time. What is held up on the way
	// arrives later, so a receiver can see more in a second than the limit.
	ByClock Pacing = iota

	// ByAnswer counts a start until a period after its answer, so no receiver
	// sees more than the limit's amount in any period by its own clock, whatever
	// the delays. The exceptions are requests that were abandoned without an
	// answer, which Snapshot.Abandoned counts, and those of a process that is
	// stopped for seconds between deciding to start and sending. At most the
	// amount is started per period plus the time that an answer takes. The burst
	// does not count; an amount that is not whole is rounded down.
	ByAnswer
)

// pace decides when work starts.
type pace interface {
	// grant reserves the next start, and tells how long from now it is and when
	// that is in the store's time. It answers false once ctx ends. After that
	// comes a call of answered or unused.
	grant(ctx context.Context) (wait time.Duration, granted time.Time, ok bool)

	answered() // the work is over
	unused()   // it was not started

	// keep does what is to be done meanwhile, until ctx ends.
	keep(ctx context.Context)
}

// clockPace paces by the clock.
type clockPace Dispatcher

// ahead is how far in advance starts are reserved from the limit, so that a late
// wake-up loses none.
const ahead = 200 * time.Millisecond

// grant reserves the next start from the limit, and tells how long from now
// it is. It answers false once ctx ends.
//
// Waiting in line would lose the time from when a start is due to when the
// store hears of it, and more than a start at once is not to be had from a
// bucket that never lets two pass. So the start is consumed before it is due,
// as a debt, and never given back: if the process dies, it is lost.
func (d *clockPace) grant(ctx context.Context) (wait time.Duration, granted time.Time, ok bool) {
	start := sluice.Demand{Key: d.config.Key, Limit: d.config.Limit, Cost: sluice.Tokens(1)}
	for ctx.Err() == nil {
		decision, err := d.config.Limiter.Adjust(ctx, start)
		if err == nil {
			due := d.due(&decision.Results[0])
			backoff.Sleep(ctx, due-ahead) // so that a pause of the plan has its effect soon
			return min(due, ahead), decision.Time.Add(due), ctx.Err() == nil
		}
		if ctx.Err() == nil {
			d.s.log.Warn("the limit could not be asked; nothing starts until it can", "plan", d.config.Plan, "error", err)
		}
		backoff.Sleep(ctx, ahead)
	}
	return 0, time.Time{}, false
}

// due is how long it takes until what was consumed last is there: until the
// bucket would be full, less what a whole bucket takes to be.
func (d *clockPace) due(r *sluice.Result) time.Duration {
	if r.Remaining.Thousandths() >= 0 {
		return 0
	}
	amount, period := d.config.Limit.Rate()
	whole := time.Duration(d.config.Limit.Capacity().Thousandths()/amount*period+d.config.Limit.Capacity().Thousandths()%amount*period/amount) * time.Microsecond
	return max(r.ResetAfter-whole, 0)
}

// What is reserved is never given back.
func (d *clockPace) answered() {}
func (d *clockPace) unused()   {}

func (d *clockPace) keep(context.Context) {}
