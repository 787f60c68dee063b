package sluice

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
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

// LeaseCostError returns the error of every store for a settlement whose costs it
// cannot set: of a limit that the lease does not have, or of concurrency, whose
// cost is fixed.
func LeaseCostError(limit string, fixed bool) error {
	if fixed {
		return BadField("lease.costs", limit, "concurrency cannot be adjusted")
	}
	return BadField("lease.costs", limit, "the lease has no limit of this name")
}

// FieldError says which field of the input is wrong, with which value, and
// what would be right.
type FieldError struct {
	Field  string
	Value  any
	Reason string
}

// BadField returns a *[FieldError].
func BadField(field string, value any, reason string) error {
	return &FieldError{Field: field, Value: value, Reason: reason}
}

// Error returns the three parts. However long the field and its value are, it is
// a line that can be read.
func (e *FieldError) Error() string {
	value := e.Value
	if s, ok := value.(string); ok {
		value = Excerpt(s)
	}
	return fmt.Sprintf("%.200s: %v: %s", e.Field, value, e.Reason)
}

// Excerpt returns text from outside as a message can show it: the beginning of
// what is long, in quotes if it has characters that cannot be printed.
func Excerpt(s string) string {
	const most = 60
	short := s
	if len(s) > most {
		short = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.ContainsFunc(short, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(short)
	}
	return short
}
