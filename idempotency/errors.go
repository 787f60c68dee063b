package idempotency

import "errors"

var (
	// ErrLost is the answer to a claim's holder that has lost it: it was taken
	// over after it lapsed, settled, released or forgotten. Nothing was
	// written.
	ErrLost = errors.New("the claim is no longer held")

	// ErrNotFound is the answer about a key that has no record.
	ErrNotFound = errors.New("no record of this key")

	// ErrMismatch is the answer to a key that was used for something else.
	ErrMismatch = errors.New("the key was used for a different request")

	// ErrNotCrashed is the answer to settling a record whose run has ended or
	// is still going on.
	ErrNotCrashed = errors.New("only a run that crashed can be settled")

	// ErrFull is the answer of a store that has no room for another record. It
	// comes with sluice.ErrUnavailable.
	ErrFull = errors.New("too many records")

	// ErrTooLong is the cause that ends the context of a run that took longer
	// than its route allows.
	ErrTooLong = errors.New("the run took longer than its route allows")

	// ErrNotDelivered is the answer of [Send] if the receiver did not accept
	// the call. A later Send with the same key tries again.
	ErrNotDelivered = errors.New("not delivered")

	// ErrOutcomeUnknown is the answer of [Send] if nobody knows whether the
	// receiver has executed the call. It is not sent again until
	// [Keeper.Settle] or [Keeper.Forget] decides.
	ErrOutcomeUnknown = errors.New("it may have been executed")
)
