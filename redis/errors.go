package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// outcome is what is known of a call that got no proper answer.
type outcome int

const (
	unknown    outcome = iota // it may have happened
	noScript                  // it has not: the server does not know the script
	notYet                    // it has not, and may soon be possible
	forbidden                 // it has not, and trying again does not help
	unreadable                // it has not: scripts read before they write
)

// proofs are the beginnings of replies which prove that a script has not
// written anything: the server refused it before it began, or it failed at
// its first write, which is after all deciding.
var proofs = map[string]outcome{
	"NOSCRIPT":    noScript,
	"MOVED":       notYet, // more often than rueidis follows
	"ASK":         notYet,
	"TRYAGAIN":    notYet, // the slot is on its way to another node
	"CLUSTERDOWN": notYet,
	"LOADING":     notYet,
	"BUSY":        notYet,
	"READONLY":    notYet, // a replica, or a primary that has been demoted
	"MASTERDOWN":  notYet,
	"NOREPLICAS":  notYet,
	"OOM":         forbidden,
	"MISCONF":     forbidden,
	"NOAUTH":      forbidden,
	"WRONGPASS":   forbidden,
	"NOPERM":      forbidden,
	"CROSSSLOT":   forbidden,
	"WRONGTYPE":   unreadable,
}

// judge returns what is known of a call that failed.
func judge(err error) outcome {
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		text := reply.Error()
		word, _, _ := strings.Cut(text, " ")
		if o, ok := proofs[word]; ok {
			return o
		}
		return unknown
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return notYet
	}
	if errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, rueidis.ErrNoAddr) {
		return notYet
	}
	return unknown
}

// IsNoScript reports whether a server does not know a script.
func IsNoScript(err error) bool { return judge(err) == noScript }

// Error returns the error of a call that failed, which wraps what is known of
// its outcome: [sluice.ErrUnavailable] or [sluice.ErrUnknown].
func Error(err error) error {
	var reply *rueidis.RedisError
	switch {
	case judge(err) == unreadable:
		return fmt.Errorf("redis: %w: %w", sluice.ErrRecord, err)
	case judge(err) != unknown:
		return fmt.Errorf("redis: %w: %w", sluice.ErrUnavailable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redis: no answer in time: %w", sluice.ErrUnknown)
	case errors.As(err, &reply):
		return fmt.Errorf("redis: %w: the script stopped: %w: %w", sluice.ErrUnknown, sluice.ErrRecord, err)
	}
	return fmt.Errorf("redis: %w: %w", sluice.ErrUnknown, err)
}

// Retry calls send until it succeeds or ctx ends, while it is certain that
// nothing has happened. known is false after a server has answered that it does
// not know the script.
func Retry(ctx context.Context, send func(known bool) error) error {
	known := true
	for attempt := 1; ; attempt++ {
		err := send(known)
		if err == nil {
			return nil
		}
		switch o := judge(err); {
		case o == noScript && known:
			known = false
		case o == notYet && pause(ctx, attempt):
			known = true
		default:
			return Error(err)
		}
	}
}

var pauses = backoff.Pauses{First: 2 * time.Millisecond, Max: 128 * time.Millisecond}

// pause waits before another attempt, longer each time and never twice the
// same, so that callers do not come back all at once. It reports false if
// there is no time left for another.
func pause(ctx context.Context, attempt int) bool {
	wait := backoff.Jitter(pauses.After(attempt))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	return backoff.Sleep(ctx, wait)
}
