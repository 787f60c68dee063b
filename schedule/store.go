package schedule

import (
	"context"
	"encoding/json"
	"time"
)

// Store keeps plans, windows and slots. Each call is atomic. Times in the
// arguments of searches are microseconds since the epoch.
//
// A store prepares windows before it fills them: the scheduler, which knows
// the calendar, tells it which there are in a stretch of time. Events go only
// into prepared windows, so a search never has to create one, and never waits
// for somebody else who does.
type Store interface {
	// Now is the time of the store, by which everything is scheduled.
	Now(ctx context.Context) (time.Time, error)

	// Plan is the active version of a plan.
	Plan(ctx context.Context, namespace, name string) (*ActivePlan, error)

	// Plans are the active versions of the first max plans after a name.
	Plans(ctx context.Context, namespace, after string, max int) ([]Plan, error)

	// Versions are the newest versions of a plan, the newest first.
	Versions(ctx context.Context, namespace, name string, max int) ([]Plan, error)

	// SavePlan makes p the active version, and answers it and the one before
	// (its version is 0 if there was none). If p.Version is not 0 it must be
	// the active one's. Nothing stays prepared.
	SavePlan(ctx context.Context, namespace string, p Plan, now time.Time) (saved, before Plan, err error)

	// PausePlan stops or resumes claiming.
	PausePlan(ctx context.Context, namespace, name string, paused bool, now time.Time) error

	// Flush tells everyone who watches to forget cached plans.
	Flush(ctx context.Context) error

	// Watch calls forget when plans were changed or flushed, by anyone,
	// until the store is closed. forget must not block.
	Watch(forget func())

	// Prepare notes which windows there are in stretches of time, which are
	// of one plan, in order, and do not overlap. ErrStale if the plan's
	// version is another.
	Prepare(ctx context.Context, stretches []Stretch) error

	// Assign finds a slot for one event.
	Assign(ctx context.Context, s *Search) (Found, error)

	// AssignBatch finds slots for events of one plan, in order of their
	// From. All searches have the same plan, version and time.
	AssignBatch(ctx context.Context, searches []Search) ([]Found, error)

	// Slot is the slot of an event.
	Slot(ctx context.Context, namespace, event string) (Slot, error)

	// SlotsBetween are slots of a plan that are scheduled in [from, to), in
	// order of their time and event, after a position.
	SlotsBetween(ctx context.Context, namespace, plan string, from, to time.Time, after Position, max int) ([]Slot, error)

	// Windows are the windows of a plan that begin in [from, to) and have
	// events, in order.
	Windows(ctx context.Context, namespace, plan string, from, to time.Time, max int) ([]Window, error)

	// Cancel takes back a slot that is waiting. One that is cancelled stays
	// so; ErrConflict if it is past that.
	Cancel(ctx context.Context, namespace, event string, now time.Time, detail string) (Slot, error)

	// Unstarted are slots that are waiting, were never claimed, were created
	// before a time and are scheduled before another, in order of their
	// scheduled time and event, after a position.
	Unstarted(ctx context.Context, namespace, plan string, created, scheduled time.Time, after Position, max int) ([]Slot, error)

	// Reclaim removes a slot that is waiting and was never claimed, and
	// gives its room back; ErrConflict if it was.
	Reclaim(ctx context.Context, namespace, event string, now time.Time, detail string) (Slot, error)

	// Claim takes slots that are due, those of no other claim.
	Claim(ctx context.Context, c Claiming) ([]Slot, error)

	// ClaimEvent takes the slot of one event that is waiting, due or not,
	// until it is finished. ErrConflict if it is not waiting.
	ClaimEvent(ctx context.Context, namespace, event, worker string, now time.Time) (Slot, error)

	// NextDue is when the next slot of the plan is due; zero if none waits.
	NextDue(ctx context.Context, namespace, plan string) (time.Time, error)

	// Renew lets claims last until a time, and answers which of them are
	// lost.
	Renew(ctx context.Context, namespace string, claims []Claim, until time.Time) ([]Claim, error)

	// Finish ends a claim; ErrClaimLost if it is not the slot's any more.
	Finish(ctx context.Context, namespace string, f Finish) error

	// Audit reads the audit log.
	Audit(ctx context.Context, namespace string, q AuditQuery) ([]Entry, error)

	// Sweep takes one step of removing what is older than it is kept. It
	// looks at no more rows than the step says, finds them by an index, and
	// waits for nobody: if somebody else is at it, it removes nothing.
	Sweep(ctx context.Context, q Sweeping) (Swept, error)

	// Erase takes one step of removing everything in a namespace, of at most
	// so many rows. From its first step on a plan cannot be used, and when all
	// of it is gone everyone who watches is told. Swept.Removed are the slots
	// among the rows.
	Erase(ctx context.Context, namespace string, max int) (Swept, error)

	Close() error
}

// ActivePlan is the active version of a plan and how its windows lie.
type ActivePlan struct {
	ID       int64
	Plan     Plan
	Eras     []Era
	Frontier int64 // start of the last window that has an event; 0 if none has
}

// Stretch is the time from From to To, in which there are these windows of a
// plan and no others.
type Stretch struct {
	Plan    int64
	Version int
	From    int64
	To      int64
	Windows []Window
}

// Search asks for a slot in the first window with room that begins in
// [From, Until) and is not in use by somebody else at this moment.
type Search struct {
	Namespace string
	Event     string
	Plan      int64
	PlanName  string
	Version   int
	Max       int // of the plan's windows, to know about how many are needed
	From      int64
	Until     int64
	Earliest  int64   // the scheduled moment is not before it
	Jitter    float64 // where in the window: 0 to below 1
	Requested int64
	Now       int64
	Payload   json.RawMessage
}

// FoundStatus says how a search ended.
type FoundStatus uint8

// How a search ends.
const (
	Nothing    FoundStatus = iota // no window with room
	Assigned                      // a slot
	Existed                       // the slot that the event had
	Elsewhere                     // the event has a slot in another plan
	Unprepared                    // nothing before Found.At, from where on windows are not prepared
	Again                         // a batch took as many windows as it may; search again
)

// Found is how a search ended.
type Found struct {
	Status FoundStatus
	Slot   Slot

	// At is where Unprepared time begins.
	At int64

	// First is where room begins: no window from the search's From up to it
	// has any. 0 if that is not known.
	First int64

	// Contended are windows with room that were skipped because they were
	// in use, at most MaxContended of them.
	Contended []int64

	// Depth and Frontier are told with Nothing: how many windows were
	// searched, and the start of the plan's last window with an event.
	Depth    int
	Frontier int64
}

// MaxContended bounds Found.Contended.
const MaxContended = 32

// Position is where a list of slots goes on: after this moment and event.
type Position struct {
	Scheduled int64  `json:"scheduled"`
	Event     string `json:"event"`
}

// Claiming asks for slots that are due.
type Claiming struct {
	Namespace string
	Plan      string
	Worker    string
	Now       time.Time
	Until     time.Time // when the claims run out
	Max       int
}

// Claim names one claim on a slot.
type Claim struct {
	Event string
	Fence int64
}

// Finish is the end of a claim. Action is one of Finished, Retried, GaveUp and
// Released.
type Finish struct {
	Claim
	Action   Action
	Now      time.Time
	Due      time.Time // for Retried and Released: when the slot is due again
	Granted  time.Time
	Started  time.Time
	Finished time.Time
	Detail   string
}

// State is what the claim's end makes of the slot, and how many attempts it
// gives back.
func (f *Finish) State() (state State, attempts int) {
	switch f.Action {
	case Finished:
		return Done, 0
	case GaveUp:
		return Failed, 0
	case Released:
		return Waiting, 1
	}
	return Waiting, 0
}

// SweepTarget is what a step of sweeping removes.
type SweepTarget uint8

// What is swept.
const (
	// SweepSlots removes slots that are done, failed or cancelled. The end of
	// a slot is when that happened, or when its window ends if that is later.
	// The window still counts them.
	SweepSlots SweepTarget = iota

	// SweepWindows removes windows that have ended and have no slots, and what
	// was noted of them when they were prepared.
	SweepWindows

	// SweepAudit removes entries of the audit log.
	SweepAudit
)

// Sweeping is one step of sweeping a plan.
type Sweeping struct {
	Namespace string
	Plan      string
	Target    SweepTarget
	Before    time.Time // what ended before it is removed
	After     int64     // where the step before ended: Swept.Next; 0 at first
	Max       int       // how many rows are looked at
}

// Swept is what a step of sweeping did.
type Swept struct {
	Removed int
	More    bool  // whether there may be more to remove
	Next    int64 // for Sweeping.After
}
