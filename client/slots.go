package client

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

// PlanPage is one page of the plans by which slots are assigned.
type PlanPage struct {
	Plans []schedule.Plan `json:"plans"`
	Next  string          `json:"next"`
}

// SlotPlans lists the active versions of all plans in order of name.
func (c *Client) SlotPlans(ctx context.Context, p Page) (PlanPage, error) {
	return ask[PlanPage](ctx, c, get(p.values(), "slots", "plans"))
}

// SlotPlan returns the active version of a plan.
func (c *Client) SlotPlan(ctx context.Context, name string) (schedule.Plan, error) {
	return ask[schedule.Plan](ctx, c, get(nil, "slots", "plans", name))
}

// SlotPlanVersions returns the versions of a plan, newest first. max is 1 to
// 1000, or 0 for 100.
func (c *Client) SlotPlanVersions(ctx context.Context, name string, max int) ([]schedule.Plan, error) {
	page, err := ask[PlanPage](ctx, c, get(Page{Max: max}.values(), "slots", "plans", name, "versions"))
	return page.Plans, err
}

// planJSON is what can be said about a plan.
type planJSON struct {
	Name         string             `json:"name,omitempty"`
	Version      int                `json:"version,omitempty"`
	MaxPerWindow int                `json:"maxPerWindow,omitempty"`
	WindowSize   string             `json:"windowSize,omitempty"`
	Headroom     int                `json:"headroom,omitempty"`
	Calendar     *schedule.Calendar `json:"calendar,omitempty"`
	Target       *schedule.Target   `json:"target,omitempty"`
}

// SetSlotPlan makes p the active version of its plan. If p.Version is not 0 it
// must be the active one, else the answer is schedule.ErrConflict. Secrets of its
// target are sealed by the server.
func (c *Client) SetSlotPlan(ctx context.Context, p schedule.Plan) (schedule.Plan, error) {
	return ask[schedule.Plan](ctx, c, post(planJSON{
		Name: p.Name, Version: p.Version, MaxPerWindow: p.MaxPerWindow, WindowSize: span(p.WindowSize), Headroom: p.Headroom, Calendar: p.Calendar, Target: p.Target,
	}, "slots", "plans"))
}

// PauseSlotPlan stops dispatchers from claiming slots of a plan.
func (c *Client) PauseSlotPlan(ctx context.Context, name string) error {
	return c.do(ctx, post(nil, "slots", "plans", name, "pause"), nil)
}

// ResumeSlotPlan undoes PauseSlotPlan.
func (c *Client) ResumeSlotPlan(ctx context.Context, name string) error {
	return c.do(ctx, post(nil, "slots", "plans", name, "resume"), nil)
}

// SlotLoad returns how many events are scheduled from a time on (now if it is
// zero), in bars of step each. step 0 means a minute, bars 0 means 100.
func (c *Client) SlotLoad(ctx context.Context, plan string, from time.Time, step time.Duration, bars int) (schedule.Histogram, error) {
	query := values("from", moment(from), "step", span(step))
	if bars != 0 {
		query.Set("bars", strconv.Itoa(bars))
	}
	answer, err := ask[struct {
		Plan, Step string
		Bars       []schedule.Bar
	}](ctx, c, get(query, "slots", "plans", plan, "load"))
	if err != nil {
		return schedule.Histogram{}, err
	}
	step, err = time.ParseDuration(answer.Step)
	return schedule.Histogram{Plan: answer.Plan, Step: step, Bars: answer.Bars}, err
}

// SlotPage is one page of slots.
type SlotPage struct {
	Slots []schedule.Slot `json:"slots"`
	Next  string          `json:"next"`
}

// SlotWindow lists what is scheduled in the window that a moment is in; the
// current one if at is zero.
func (c *Client) SlotWindow(ctx context.Context, plan string, at time.Time, p Page) (SlotPage, error) {
	return ask[SlotPage](ctx, c, get(p.values("at", moment(at)), "slots", "plans", plan, "window"))
}

// FailedSlots lists the slots of a plan that have failed.
func (c *Client) FailedSlots(ctx context.Context, plan string, p Page) (SlotPage, error) {
	return ask[SlotPage](ctx, c, get(p.values(), "slots", "plans", plan, "failed"))
}

// UnknownSlots lists the slots of a plan of which nobody knows whether they were
// executed.
func (c *Client) UnknownSlots(ctx context.Context, plan string, p Page) (SlotPage, error) {
	return ask[SlotPage](ctx, c, get(p.values(), "slots", "plans", plan, "unknown"))
}

// RequeueSlot has an event that has failed, or is unknown, tried again.
func (c *Client) RequeueSlot(ctx context.Context, event, reason string) (schedule.Slot, error) {
	r := post(nil, "slots", "events", event, "requeue")
	r.query = values("reason", reason)
	return ask[schedule.Slot](ctx, c, r)
}

// RequeueFailedSlots has all events of a plan that have failed tried again, and
// returns how many.
func (c *Client) RequeueFailedSlots(ctx context.Context, plan, reason string) (int, error) {
	r := post(nil, "slots", "plans", plan, "requeue")
	r.query = values("reason", reason)
	answer, err := ask[struct{ Requeued int }](ctx, c, r)
	return answer.Requeued, err
}

// FlushSlotPlans makes every node forget its cached plans.
func (c *Client) FlushSlotPlans(ctx context.Context) error {
	return c.do(ctx, post(nil, "slots", "flush"), nil)
}

// AssignSlot gives an event its slot. An event that has one keeps it.
func (c *Client) AssignSlot(ctx context.Context, r schedule.Request) (schedule.Slot, error) {
	return ask[schedule.Slot](ctx, c, post(r, "slots", "assign"))
}

// AssignSlots gives slots to up to 10000 events. There is a result for each;
// the error is for what concerns all of them.
func (c *Client) AssignSlots(ctx context.Context, events []schedule.Request) ([]schedule.Result, error) {
	answer, err := ask[struct {
		Results []struct {
			Slot  *schedule.Slot
			Error string
		}
	}](ctx, c, post(map[string]any{"events": events}, "slots", "batch"))
	if err != nil {
		return nil, err
	}
	results := make([]schedule.Result, len(answer.Results))
	for i, r := range answer.Results {
		if r.Slot == nil {
			results[i].Err = errors.New(r.Error)
			continue
		}
		results[i].Slot = *r.Slot
	}
	return results, nil
}

// Slot returns the slot of an event.
func (c *Client) Slot(ctx context.Context, event string) (schedule.Slot, error) {
	return ask[schedule.Slot](ctx, c, get(nil, "slots", "events", event))
}

// CancelSlot takes back a slot that nobody has started, has failed or is unknown.
func (c *Client) CancelSlot(ctx context.Context, event, reason string) (schedule.Slot, error) {
	return ask[schedule.Slot](ctx, c, remove(0, values("reason", reason), "slots", "events", event))
}

// ConfirmSlot records that the event was started, so that no dispatcher runs it
// and it is not taken for leaked. The slot's fence goes with CompleteSlot. It may
// be repeated. worker tells processes of one caller apart that might start the
// same event: all but the first get schedule.ErrConflict. It may be "".
func (c *Client) ConfirmSlot(ctx context.Context, event, worker string) (schedule.Slot, error) {
	r := post(nil, "slots", "events", event, "confirm")
	r.query = values("worker", worker)
	return ask[schedule.Slot](ctx, c, r)
}

// CompleteSlot records how an event ended that was confirmed, or is unknown: failure is "" if
// it is done, and says what went wrong if it is not. It may be repeated.
func (c *Client) CompleteSlot(ctx context.Context, event string, fence int64, failure string) error {
	return c.do(ctx, post(struct {
		Fence   int64  `json:"fence"`
		Failure string `json:"failure,omitempty"`
	}{fence, failure}, "slots", "events", event, "complete"), nil)
}

// WorkSlots claims slots that are due. Each is to be ended with CompleteSlot or
// FailSlot before its Due, or extended; else it is handed out again. o.Worker
// tells processes of one caller apart, and may be "".
func (c *Client) WorkSlots(ctx context.Context, o schedule.Offer) ([]schedule.Slot, error) {
	page, err := ask[SlotPage](ctx, c, post(struct {
		Plan   string `json:"plan,omitempty"`
		Worker string `json:"worker,omitempty"`
		Life   string `json:"life,omitempty"`
		Max    int    `json:"max,omitempty"`
	}{o.Plan, o.Worker, span(o.Life), o.Max}, "slots", "work"))
	return page.Slots, err
}

// ExtendSlot lets a claim last so long from now, 30 s if life is 0.
func (c *Client) ExtendSlot(ctx context.Context, event string, fence int64, life time.Duration) error {
	return c.do(ctx, post(struct {
		Fence int64  `json:"fence"`
		Life  string `json:"life,omitempty"`
	}{fence, span(life)}, "slots", "events", event, "extend"), nil)
}

// FailSlot records that an attempt failed. The event is tried again later, unless
// it was the last attempt. It may be repeated.
func (c *Client) FailSlot(ctx context.Context, event string, fence int64, reason string) (schedule.Slot, error) {
	return ask[schedule.Slot](ctx, c, post(struct {
		Fence  int64  `json:"fence"`
		Reason string `json:"reason,omitempty"`
	}{fence, reason}, "slots", "events", event, "fail"))
}

// SlotReconciliation asks for slots that were assigned and never started.
type SlotReconciliation struct {
	Plan    string        // "" means "default"
	Age     time.Duration // how long ago a slot was assigned; 0 means 10 minutes
	Overdue bool          // only those whose time has passed
	DryRun  bool          // only tell what would be reclaimed
	Started []string      // events that did start, and are to be confirmed
}

// ReconcileSlots finds leaked slots and reclaims them. Without a dry run the
// caller says that all but those in r.Started never started.
func (c *Client) ReconcileSlots(ctx context.Context, r SlotReconciliation) (schedule.ReconcileReport, error) {
	return ask[schedule.ReconcileReport](ctx, c, post(struct {
		Plan    string   `json:"plan,omitempty"`
		Age     string   `json:"age,omitempty"`
		Overdue bool     `json:"overdue,omitempty"`
		DryRun  bool     `json:"dryRun,omitempty"`
		Started []string `json:"started,omitempty"`
	}{r.Plan, span(r.Age), r.Overdue, r.DryRun, r.Started}, "slots", "reconcile"))
}

// SlotAudit reads the audit log of an event or a plan, the newest entry
// first.
func (c *Client) SlotAudit(ctx context.Context, q schedule.AuditQuery) ([]schedule.Entry, error) {
	query := Page{Max: q.Max}.values("event", q.Event, "plan", q.Plan)
	if q.Before != 0 {
		query.Set("before", strconv.FormatInt(q.Before, 10))
	}
	answer, err := ask[struct{ Entries []schedule.Entry }](ctx, c, get(query, "slots", "audit"))
	return answer.Entries, err
}
