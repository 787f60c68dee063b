package schedule

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice/internal/badinput"
)

const (
	// MaxEvent is the longest event id, in bytes.
	MaxEvent = 255
	// MaxPayload is the largest payload, in bytes.
	MaxPayload = 64 << 10
	// MaxBatch is how many events one batch may have.
	MaxBatch = 10_000
)

// State is what has become of a slot.
type State uint8

// The states of a slot.
const (
	Waiting   State = iota // assigned, and nobody has started it
	Running                // claimed by a worker, or handed over to its owner
	Done                   // a worker has finished it
	Failed                 // given up after the last attempt
	Cancelled              // taken back before it started; it never runs
	Leaked                 // never started, and reclaimed; assigning its event again gives it a new slot
	Unknown                // it may have been executed; it stays so until somebody settles it
)

var stateNames = [...]string{"waiting", "running", "done", "failed", "cancelled", "leaked", "unknown"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if string(b) == name {
			*s = State(i)
			return nil
		}
	}
	return badinput.Field("state", string(b), "must be waiting, running, done, failed, cancelled, leaked or unknown")
}

// Request asks for a slot.
type Request struct {
	// Event names the work. Asking again for the same event gives the same
	// slot.
	Event string `json:"event"`

	// Plan is the plan to schedule by. Empty means "default".
	Plan string `json:"plan,omitempty"`

	// At is the earliest time wanted. The zero time, and any in the past,
	// mean now.
	At time.Time `json:"at,omitzero"`

	// NotAfter is the latest time that the event may be scheduled for. If there
	// is no room until then the answer is an [*ExhaustedError]. A window that
	// only begins before it is used if it is the one that At is in. Zero means
	// that only the plan's headroom counts.
	NotAfter time.Time `json:"notAfter,omitzero"`

	// Payload is kept with the slot, for the worker: any JSON.
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (r *Request) normalize() error {
	if r.Plan == "" {
		r.Plan = DefaultPlan
	}
	if err := checkPlanName(r.Plan); err != nil {
		return err
	}
	if err := checkEvent(r.Event); err != nil {
		return err
	}
	switch {
	case !r.At.IsZero() && (r.At.Year() < 1970 || r.At.Year() > 2500):
		return badinput.Field("at", r.At, "must be a time between 1970 and 2500")
	case !r.NotAfter.IsZero() && r.NotAfter.Before(r.At):
		return badinput.Field("notAfter", r.NotAfter, "must not be before at")
	case len(r.Payload) > MaxPayload:
		return badinput.Field("payload", len(r.Payload), fmt.Sprintf("must be at most %d bytes long", MaxPayload))
	case len(r.Payload) > 0 && !json.Valid(r.Payload):
		return badinput.Field("payload", string(r.Payload), "must be JSON")
	}
	return nil
}

func checkEvent(event string) error {
	if len(event) == 0 || len(event) > MaxEvent || !utf8.ValidString(event) {
		return badinput.Field("event", event, fmt.Sprintf("must be 1 to %d bytes of text", MaxEvent))
	}
	for _, r := range event {
		if unicode.IsControl(r) {
			return badinput.Field("event", event, "must have no control characters")
		}
	}
	return nil
}

// Slot is a moment reserved for an event.
type Slot struct {
	Event     string    `json:"event"`
	Plan      string    `json:"plan"`
	Version   int       `json:"planVersion"` // of the plan when it was assigned
	Window    time.Time `json:"window"`      // where the window begins
	Scheduled time.Time `json:"scheduled"`
	Requested time.Time `json:"requested"`
	Created   time.Time `json:"created"`

	State    State           `json:"state"`
	Attempts int             `json:"attempts"`
	Due      time.Time       `json:"due,omitzero"` // when it is tried next, or its claim runs out
	Worker   string          `json:"worker,omitempty"`
	Fence    int64           `json:"fence,omitempty"` // rises with each claim
	Payload  json.RawMessage `json:"payload,omitempty"`

	// Existing says that the event had its slot already.
	Existing bool `json:"existing,omitempty"`
}

// StartDelay is how long after now the slot is due; never negative.
func (s *Slot) StartDelay(now time.Time) time.Duration { return max(s.Scheduled.Sub(now), 0) }

// Result is what became of one request of a batch.
type Result struct {
	Slot Slot  `json:"slot,omitzero"`
	Err  error `json:"-"` // written as "error"
}

// MarshalJSON writes either the slot or the error.
func (r Result) MarshalJSON() ([]byte, error) {
	if r.Err != nil {
		return json.Marshal(map[string]string{"error": r.Err.Error()})
	}
	return json.Marshal(map[string]Slot{"slot": r.Slot})
}
