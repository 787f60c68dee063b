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

	// Plans lists plans; see [PlanQuery].
	Plans(ctx context.Context, q PlanQuery) ([]ActivePlan, error)

	// ChangePlan changes a plan, and returns it and what it was before (its
	// version is 0 if there was none); see [PlanChange].
	ChangePlan(ctx context.Context, c PlanChange) (saved, before Plan, err error)

	// Namespaces lists the namespaces after a name that have plans, in order, max
	// at most.
	Namespaces(ctx context.Context, after string, max int) ([]string, error)

	// Flush tells everyone who watches to forget cached plans.
	Flush(ctx context.Context) error

	// Watch calls forget when plans were changed or flushed, by anyone,
	// until the store is closed. forget must not block.
	Watch(forget func())

	// Prepare notes which windows there are in stretches of time, which are
	// of one plan, in order, and do not overlap. ErrStale if the plan's
	// version is another.
	Prepare(ctx context.Context, stretches []Stretch) error

	// Assign finds slots for events of one plan, in order of their From. All
	// searches have the same plan, version and time.
	Assign(ctx context.Context, searches []Search) ([]Found, error)

	// Slots lists slots; see [Selection]. ErrNotFound if there is no such
	// plan. No slot of an event is no error.
	Slots(ctx context.Context, q Selection) ([]Slot, error)

	// Windows lists the windows of a plan that begin in [q.From, q.To) and
	// have events, in order, q.Max at most.
	Windows(ctx context.Context, q Selection) ([]Window, error)

	// Change does to the slot of an event what [Change.Apply] does, and adds
	// the entries to the audit log. ErrNotFound if the event has none.
	Change(ctx context.Context, c Change) (Slot, error)

	// Claim claims slots that are due, those of no other claim, as Apply does
	// with each: c.Max slots of c.Plan at most. None if the plan is paused. In
	// any case the plan is Dispatched from then on.
	Claim(ctx context.Context, c Claiming) ([]Slot, error)

	// Renew lets claims last until a time, and returns which of them are
	// lost.
	Renew(ctx context.Context, namespace string, claims []Claim, until time.Time) ([]Claim, error)

	// Audit reads the audit log.
	Audit(ctx context.Context, namespace string, q AuditQuery) ([]Entry, error)

	// Sweep takes one step of removing what is older than it is kept, or
	// everything. It looks at no more rows than the step says, finds them by
	// an index, and waits for nobody unless it removes everything: if somebody
	// else is at it, it removes nothing.
	Sweep(ctx context.Context, q Sweeping) (Swept, error)

	Close() error
}

// PlanQuery selects the active version of the plan of that name, or its newest
// versions, the newest first. Without a name it selects the active versions of
// the plans after After, in order of their names.
type PlanQuery struct {
	Namespace string
	Name      string
	Versions  bool
	After     string
	Max       int
}

// PlanChange makes Plan the active version of its plan, and nothing stays
// prepared. If Plan.Version is not 0 it must be the active one's, else the
// error is [ErrConflict]. With Pause only whether the plan is paused changes, to
// Plan.Paused.
type PlanChange struct {
	Namespace string
	Plan      Plan
	Pause     bool
	Now       time.Time
}

// Order is which slots a [Selection] lists, and in which order.
type Order uint8

// The orders.
const (
	// ByTime lists slots that are scheduled in [From, To).
	ByTime Order = iota
	// Unstarted lists slots that are waiting, were never claimed, were created
	// before From and are scheduled before To.
	Unstarted
	// ByDue lists slots that are waiting or running and will be due, in order
	// of that. It has no pages.
	ByDue
	// GivenUp lists slots that have failed.
	GivenUp
	// InDoubt lists slots that are [Unknown], and not under way any more at To.
	InDoubt
)

// Selection selects the slot of an event, or slots of a plan, in order of their
// time and event, after a position.
type Selection struct {
	Namespace string
	Event     string
	Plan      string
	Order     Order
	From, To  time.Time
	After     Position
	Max       int
}

// ActivePlan is the active version of a plan and how its windows lie.
type ActivePlan struct {
	ID   int64
	Plan Plan
	Eras []Era
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

	// Depth is told with Nothing: how many windows were searched.
	Depth int
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

	// SweepAll removes everything in the namespace, of any age: the rows of its
	// first plan, and then the plan. From the first step on that plan cannot be
	// used, and when all of it is gone everyone who watches is told.
	// Swept.Removed are the slots among the rows.
	SweepAll
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
