package temporal

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// RateLimited is the type of the errors by which activities are put off.
const RateLimited = "RateLimited"

// LimitConfig says what activities take. Limiter and Take must be set.
type LimitConfig struct {
	// Limiter decides. Its store has to be one that all workers share.
	Limiter *sluice.Limiter

	// Take returns what an activity takes before each attempt, and its
	// priority, and is asked again while the activity waits. Without demands the activity is not limited.
	Take func(info activity.Info, args []any) sluice.Take

	// Patience is how long an activity waits in line on its worker. If that
	// is not enough, the attempt ends and Temporal makes the next one when
	// there could be room. 0 means 1 s, and a negative value that none waits.
	Patience time.Duration
}

// Limit returns an interceptor for [worker.Options] that has activities take
// from a limiter before they run.
//
// An activity that is put off has an error of type [RateLimited] with a next
// retry delay. It counts as an attempt, so bound such activities by a
// ScheduleToCloseTimeout and not by MaximumAttempts. A cost that can never pass
// is not retried.
//
// [worker.Options]: https://pkg.go.dev/go.temporal.io/sdk/worker#Options
func Limit(c LimitConfig) (interceptor.WorkerInterceptor, error) {
	switch {
	case c.Limiter == nil:
		return nil, &sluice.FieldError{Field: "limiter", Reason: "must be set"}
	case c.Take == nil:
		return nil, &sluice.FieldError{Field: "take", Reason: "must be set"}
	case c.Patience == 0:
		c.Patience = time.Second
	}
	return &limited{config: c}, nil
}

type limited struct {
	interceptor.WorkerInterceptorBase
	config LimitConfig
}

// InterceptActivity has next run under the limit.
func (l *limited) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &limitedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, &l.config}
}

type limitedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	config *LimitConfig
}

// ExecuteActivity takes, and then runs the activity.
func (a *limitedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if t := a.config.Take(info, in.Args); len(t.Demands) > 0 {
		again := func(_ context.Context, t *sluice.Take) error {
			t.Demands = a.config.Take(info, in.Args).Demands
			return nil
		}
		if err := a.config.take(ctx, &t, again); err != nil {
			return nil, putOff(err, a.config.Patience, info.Attempt)
		}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// take takes now, or waits in line if patience could be enough.
func (c *LimitConfig) take(ctx context.Context, t *sluice.Take, again func(context.Context, *sluice.Take) error) error {
	var d sluice.Decision
	if err := c.Limiter.Decide(ctx, t, &d); err != nil {
		return err
	}
	if d.Allowed || d.RetryAfter > c.Patience || d.Source == sluice.Unknown {
		return d.Err()
	}
	waiting, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	t.Resolve = again
	_, err := c.Limiter.Wait(waiting, *t)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// putOff tells Temporal when to make the next attempt: when there could be
// room, and later the more attempts there were, as many may be waiting.
func putOff(err error, patience time.Duration, attempt int32) error {
	options := temporal.ApplicationErrorOptions{Cause: err, Category: temporal.ApplicationErrorCategoryBenign}
	refused, ok := errors.AsType[*sluice.RefusedError](err)
	switch {
	case !ok && !errors.Is(err, context.DeadlineExceeded):
		return err
	case ok && refused.RetryAfter == sluice.Never:
		options.NonRetryable = true
	default:
		spread := max(patience, time.Second) * time.Duration(min(attempt, 30))
		options.NextRetryDelay = rand.N(spread) + time.Millisecond
		if ok {
			options.NextRetryDelay += refused.RetryAfter
		}
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), RateLimited, options)
}
