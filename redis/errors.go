package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
)

// ErrVersion is the answer to a call that found something written by another
// version of Sluice, which this one cannot read. Nothing has happened.
var ErrVersion = errors.New("a bucket was written by another version of Sluice")

// outcome is what is known of a call that got no proper answer.
type outcome int

const (
	unknown   outcome = iota // it may have happened
	noScript                 // it has not: the server does not know the script
	notYet                   // it has not, and may soon be possible
	forbidden                // it has not, and trying again does not help
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
}

// judge says what is known of a call that failed.
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

// failure is the error for callers.
func failure(err error, o outcome) error {
	var reply *rueidis.RedisError
	switch {
	case o != unknown:
		return fmt.Errorf("redis: %w: %w", sluice.ErrUnavailable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redis: no answer in time: %w", sluice.ErrUnknown)
	case errors.As(err, &reply):
		return fmt.Errorf("redis: %w: the script stopped: %w", sluice.ErrUnknown, err)
	}
	return fmt.Errorf("redis: %w: %w", sluice.ErrUnknown, err)
}
