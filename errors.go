package sluice

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknown marks a call that may or may not have taken effect: the
	// store did not answer in time. Such a call is never sent again.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnavailable marks a call that certainly had no effect because the
	// store could not be reached.
	ErrUnavailable = errors.New("store unavailable")

	// ErrLeaseClosed is the answer to a call on a lease that was committed,
	// released or has expired, or that never was.
	ErrLeaseClosed = errors.New("lease is closed or unknown")

	// ErrRequestMismatch is the answer to a take that repeats a request id
	// with other demands than the first time.
	ErrRequestMismatch = errors.New("request id was used for a different take")

	// ErrClosed is the answer of a store or limiter after Close.
	ErrClosed = errors.New("closed")
)

// LeaseCostError is the answer of every store to a settlement whose costs it
// cannot set: of a limit that the lease does not have, or of concurrency, whose
// cost is fixed.
func LeaseCostError(limit string, fixed bool) error {
	if fixed {
		return fieldError("lease.costs", limit, "concurrency cannot be adjusted")
	}
	return fieldError("lease.costs", limit, "the lease has no limit of this name")
}

// FieldError says which field of the input is wrong, with which value, and
// what would be right.
type FieldError struct {
	Field  string
	Value  any
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Field, e.Value, e.Reason)
}

func fieldError(field string, value any, reason string) error {
	return &FieldError{Field: field, Value: value, Reason: reason}
}
