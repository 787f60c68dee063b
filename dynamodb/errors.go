package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// outcome is what is known of a request that failed.
type outcome int

const (
	unknown   outcome = iota // it may have happened
	changed                  // it has not: what it was decided from has changed
	notYet                   // it has not, and may soon be possible
	forbidden                // it has not, and trying again does not help
)

// proofs are the error codes which prove that a request has changed nothing: the
// service refused it before it began, or has undone it. Whatever is not among
// them, internal errors and time-outs above all, proves nothing.
var proofs = map[string]outcome{
	"ConditionalCheckFailedException": changed,

	"TransactionConflictException":           notYet, // another transaction is writing the item
	"ProvisionedThroughputExceededException": notYet,
	"ThrottlingException":                    notYet,
	"RequestLimitExceeded":                   notYet,
	"LimitExceededException":                 notYet, // too many tables are being changed
	"ResourceInUseException":                 notYet, // the table is being made

	"ReplicatedWriteConflictException":         notYet,
	"ResourceNotFoundException":                forbidden,
	"TableNotFoundException":                   forbidden,
	"ItemCollectionSizeLimitExceededException": forbidden,
	"IdempotentParameterMismatchException":     forbidden,
	"ValidationException":                      forbidden,
	"SerializationException":                   forbidden,
	"AccessDeniedException":                    forbidden,
	"UnrecognizedClientException":              forbidden,
	"InvalidSignatureException":                forbidden,
	"IncompleteSignatureException":             forbidden,
	"MissingAuthenticationTokenException":      forbidden,
	"ExpiredTokenException":                    forbidden,
	"RequestExpired":                           forbidden,
}

// reasons are why a transaction was cancelled, of each of its items. All of them
// prove that nothing has happened; of several, the one that stands last here counts.
var reasons = map[string]outcome{
	"ConditionalCheckFailed":          changed,
	"TransactionConflict":             changed, // most likely so; looking again finds out
	"ProvisionedThroughputExceeded":   notYet,
	"ThrottlingError":                 notYet,
	"DuplicateItem":                   forbidden,
	"ItemCollectionSizeLimitExceeded": forbidden,
	"ValidationError":                 forbidden,
	"AccessDenied":                    forbidden,
}

// judge returns what is known of a request that failed, which got as far as p.
func judge(err error, p *progress) outcome {
	if !p.signed {
		return forbidden // no credentials, or it cannot be written
	}
	if !p.written {
		return notYet // no connection
	}
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		o := unknown
		for _, r := range cancelled.CancellationReasons {
			if r.Code != nil {
				o = max(o, reasons[*r.Code])
			}
		}
		return max(o, changed) // whatever the reason, it was cancelled
	}
	var reply smithy.APIError
	if errors.As(err, &reply) {
		return proofs[reply.ErrorCode()]
	}
	return unknown
}

// ErrChanged is the error of a write that has not happened because what it was
// decided from has changed. The error of the SDK, which it wraps too, has the item
// as it is now.
var ErrChanged = errors.New("the item has changed")

// Write sends a request that changes something, again while it is certain that
// nothing has happened. Its error wraps what is known of its outcome: [ErrChanged],
// [sluice.ErrUnavailable] or [sluice.ErrUnknown].
func (db *DB) Write(ctx context.Context, send func(context.Context) error) error {
	return db.send(ctx, send, false)
}

// Read sends a request that changes nothing, again if that may help. So the outcome
// of its error is never unknown.
func (db *DB) Read(ctx context.Context, send func(context.Context) error) error {
	return db.send(ctx, send, true)
}

func (db *DB) send(ctx context.Context, send func(context.Context) error, reads bool) error {
	for attempt := 1; ; attempt++ {
		following, p := follow(ctx)
		err := send(following)
		if err == nil {
			return nil
		}
		o := judge(err, p)
		if o == unknown && reads && ctx.Err() == nil {
			o = notYet
		}
		switch {
		case o == changed:
			return fmt.Errorf("dynamodb: %w: %w", ErrChanged, err)
		case o == notYet && Pause(ctx, attempt):
		case o == unknown && !reads:
			return fmt.Errorf("dynamodb: %w: %w", sluice.ErrUnknown, err)
		default:
			return fmt.Errorf("dynamodb: %w: %w", sluice.ErrUnavailable, err)
		}
	}
}

var pauses = backoff.Pauses{First: 4 * time.Millisecond, Max: 256 * time.Millisecond}

// attempts is how often something is tried at most.
const attempts = 16

// Pause waits before another attempt, longer each time and never twice the same, so
// that callers do not come back all at once. It reports false if there were enough,
// or if ctx leaves no time for another.
func Pause(ctx context.Context, attempt int) bool {
	wait := backoff.Jitter(pauses.After(attempt))
	if deadline, ok := ctx.Deadline(); attempt >= attempts || ok && time.Until(deadline) <= wait {
		return false
	}
	return backoff.Sleep(ctx, wait)
}
