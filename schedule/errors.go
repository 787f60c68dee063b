package schedule

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound is the answer if there is no such plan or event.
	ErrNotFound = errors.New("not found")

	// ErrConflict is the answer if what is asked contradicts what is stored:
	// the event belongs to another plan, the plan was changed by somebody
	// else, or the slot is past the state in which this can be done.
	ErrConflict = errors.New("conflict")

	// ErrClaimLost is the answer to a worker whose claim on a slot ended:
	// its time ran out and somebody else may be working on the slot.
	ErrClaimLost = errors.New("the claim on the slot is lost")

	// ErrStale is a store's answer to a search that was made under a version
	// of the plan that is not the active one. The scheduler then reads the
	// plan and searches again.
	ErrStale = errors.New("the plan has changed")
)

// ExhaustedError says that no window within reach had room.
type ExhaustedError struct {
	Event string `json:"event"`
	Plan  string `json:"plan"`
	Depth int    `json:"depth"` // how many windows were searched

	NotAfter time.Time `json:"notAfter,omitzero"` // of the request
}

func (e *ExhaustedError) Error() string {
	if !e.NotAfter.IsZero() {
		return fmt.Sprintf("plan %s: no room for event %s in %d windows up to %s", e.Plan, e.Event, e.Depth, e.NotAfter.UTC().Format(time.RFC3339Nano))
	}
	return fmt.Sprintf("plan %s: no room for event %s in %d windows: raise maxPerWindow or headroom, or try again later", e.Plan, e.Event, e.Depth)
}

func notFound(what, name string) error { return fmt.Errorf("%s %q: %w", what, name, ErrNotFound) }

// NoPlan is a store's answer if there is no plan of that name.
func NoPlan(name string) error { return notFound("plan", name) }
