package catalog

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/internal/excerpt"
)

var (
	// ErrNotFound is the answer about something that is not there.
	ErrNotFound = errors.New("not found")

	// ErrExists is the answer to creating what is there already.
	ErrExists = errors.New("exists already")

	// ErrConflict is the answer to a change of something that somebody else
	// has changed since it was read. Read it again, and decide anew.
	ErrConflict = errors.New("changed by somebody else since it was read")

	// ErrHasChildren is the answer to deleting an entity that is a parent,
	// without saying what becomes of its children.
	ErrHasChildren = errors.New("has children")

	// ErrInUse is the answer to deleting a tier that entities or keys have.
	ErrInUse = errors.New("is in use")

	// ErrKey is the answer to an API key that is unknown, revoked, expired
	// or wrong. It does not say which, for whoever presents it.
	ErrKey = errors.New("the API key is not valid")
)

// ConflictError says which mutation of a [Batch] had a condition that does
// not hold. It wraps [ErrConflict].
type ConflictError struct {
	Index   int       // of the mutation
	Key     RecordKey // of its record
	If      int64     // what was demanded
	Version int64     // the record's version; 0 if there is none
}

func (e *ConflictError) Error() string {
	name := string(e.Key.Kind)
	if e.Key.ID != "" {
		name += " " + e.Key.ID
	}
	if e.Key.Sub != "" {
		name += " " + e.Key.Sub
	}
	switch {
	case e.If == IfAbsent:
		return fmt.Sprintf("%s exists already", name)
	case e.Version == 0:
		return fmt.Sprintf("%s is not there any more", name)
	}
	return fmt.Sprintf("%s: version %d was expected, and it has version %d: %v", name, e.If, e.Version, ErrConflict)
}

// Unwrap is [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// about names what an error is about.
func about(kind, id string, err error) error {
	return fmt.Errorf("%s %q: %w", kind, excerpt.Of(id), err)
}
