package sluice

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/internal/excerpt"
)

var (
	// ErrUnknown marks a call that may or may not have taken effect: the
	// store did not answer in time. Such a call is never sent again.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnavailable marks a call that certainly had no effect because the
	// store could not be reached.
	ErrUnavailable = errors.New("store unavailable")

	// ErrBusy marks a call that certainly had no effect because too many others
	// of this process wait for the store, which does answer. It is an
	// [ErrUnavailable].
	ErrBusy = fmt.Errorf("%w: too many calls wait for it", ErrUnavailable)

	// ErrUnacknowledged marks a call that the store has carried out and that too
	// few of its replicas have acknowledged: it is forgotten if one of the
	// others takes over. It is an [ErrUnknown], and is not undone.
	ErrUnacknowledged = fmt.Errorf("%w: too few replicas have acknowledged it", ErrUnknown)

	// ErrRecord marks a call about a bucket of which the store has a record that
	// it cannot read. It says nothing about other buckets. Resetting the bucket
	// mends it.
	ErrRecord = errors.New("unreadable record")

	// ErrLeaseClosed is the answer to a call on a lease that was committed,
	// released or has expired, or that never was.
	ErrLeaseClosed = errors.New("lease is closed or unknown")

	// ErrRequestMismatch is the answer to a take that repeats a request id
	// with other demands than the first time.
	ErrRequestMismatch = errors.New("request id was used for a different take")

	// ErrClosed is the answer of a store or limiter after Close.
	ErrClosed = errors.New("closed")
)

// FieldError says which field of the input is wrong, with which value, and
// what would be right.
type FieldError struct {
	Field  string
	Value  any
	Reason string
}

// Error returns the three parts. However long the field and its value are, it is
// a line that can be read.
func (e *FieldError) Error() string {
	value := e.Value
	if s, ok := value.(string); ok {
		value = excerpt.Of(s)
	}
	return fmt.Sprintf("%.200s: %v: %s", e.Field, value, e.Reason)
}

func badField(field string, value any, reason string) error {
	return &FieldError{Field: field, Value: value, Reason: reason}
}
