package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice"
)

// outcome is what an error says about the call that got it.
type outcome int

const (
	done      outcome = iota
	undone            // nothing has happened, and trying again would not help
	refused           // the same, because of what the call was given
	again             // nothing has happened, but it may the next time
	elsewhere         // nothing has happened, but it may over another connection
	unknown           // it may have happened
)

// judge tells what became of a call that was sent, or was about to be.
func judge(err error) outcome {
	if err == nil {
		return done
	}
	if pgconn.SafeToRetry(err) {
		return again // nothing was sent
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.SeverityUnlocalized != "ERROR" {
		return unknown // no answer, or the connection ended with one
	}
	// The server answers with an error after it has undone the call.
	switch pg.Code {
	case "SL001", // lost a race to create a row: again_v2
		"40001", // serialization failure
		"40P01": // deadlock
		return again
	case "25006": // read-only: the primary is another server now
		return elsewhere
	}
	if strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") {
		return refused // values it cannot hold, or keys that are there already
	}
	return undone
}

// callError is the error of a call, with what it says about the outcome.
type callError struct {
	outcome error // sluice.ErrUnknown or sluice.ErrUnavailable
	reason  error
}

func (e *callError) Error() string { return fmt.Sprintf("postgres: %v: %v", e.outcome, e.reason) }

func (e *callError) Unwrap() []error { return []error{e.outcome, e.reason} }

// UnknownError returns the error of a call that may have happened.
func UnknownError(reason error) error { return &callError{sluice.ErrUnknown, reason} }

// UnavailableError returns the error of a call that has not happened.
func UnavailableError(reason error) error {
	return &callError{sluice.ErrUnavailable, explain(reason)}
}

// ReadError returns the error of a call that changes nothing, so that its outcome
// cannot be in doubt.
func ReadError(err error) error {
	if e, ok := errors.AsType[*callError](err); ok {
		return UnavailableError(e.reason)
	}
	return err
}

// ErrClosed is the error of calls after Close.
var ErrClosed = fmt.Errorf("postgres: %w", sluice.ErrClosed)
