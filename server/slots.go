package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
)

var slotRoutes = []route{
	{"GET /v1/slots/plans", RoleRead, scheduled((*slots).plans)},
	{"POST /v1/slots/plans", RoleAdmin, scheduledWith((*slots).setPlan)},
	{"GET /v1/slots/plans/{plan}", RoleRead, scheduled((*slots).plan)},
	{"GET /v1/slots/plans/{plan}/versions", RoleRead, scheduled((*slots).versions)},
	{"POST /v1/slots/plans/{plan}/pause", RoleAdmin, scheduled((*slots).pause)},
	{"POST /v1/slots/plans/{plan}/resume", RoleAdmin, scheduled((*slots).resume)},
	{"GET /v1/slots/plans/{plan}/load", RoleRead, scheduled((*slots).load)},
	{"GET /v1/slots/plans/{plan}/window", RoleRead, scheduled((*slots).window)},
	{"GET /v1/slots/plans/{plan}/failed", RoleRead, scheduled((*slots).failed)},
	{"GET /v1/slots/plans/{plan}/unknown", RoleRead, scheduled((*slots).unknown)},
	{"POST /v1/slots/plans/{plan}/requeue", RoleAdmin, scheduled((*slots).requeueFailed)},
	{"POST /v1/slots/flush", RoleAdmin, scheduled((*slots).flush)},
	{"POST /v1/slots/assign", RoleService, scheduledWith((*slots).assign)},
	{"POST /v1/slots/batch", RoleService, scheduledWith((*slots).batch)},
	{"POST /v1/slots/work", RoleService, scheduledWith((*slots).work)},
	{"POST /v1/slots/reconcile", RoleAdmin, scheduledWith((*slots).reconcile)},
	{"GET /v1/slots/events/{event}", RoleRead, scheduled((*slots).event)},
	{"DELETE /v1/slots/events/{event}", RoleService, scheduled((*slots).cancel)},
	{"POST /v1/slots/events/{event}/confirm", RoleService, scheduled((*slots).confirm)},
	{"POST /v1/slots/events/{event}/complete", RoleService, scheduledWith((*slots).complete)},
	{"POST /v1/slots/events/{event}/extend", RoleService, scheduledWith((*slots).extend)},
	{"POST /v1/slots/events/{event}/fail", RoleService, scheduledWith((*slots).fail)},
	{"POST /v1/slots/events/{event}/requeue", RoleService, scheduled((*slots).requeue)},
	{"GET /v1/slots/audit", RoleRead, scheduled((*slots).audit)},
}

var errNoSlots = errors.New("this server has no slots")

// slots is a request about the schedule of a namespace.
type slots struct {
	*stored
	*schedule.Scheduler
	targets *target.Runner
}

func scheduled(handle func(*slots, http.ResponseWriter) error) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request, c *caller) error {
		if s.slots == nil {
			return errNoSlots
		}
		q, err := s.stored(r, c)
		if err != nil {
			return err
		}
		scheduler, err := q.scheduler()
		if err != nil {
			return err
		}
		return handle(&slots{q, scheduler, s.targets}, w)
	}
}

// scheduler returns the scheduler of the request's namespace. Those of the default
// namespace are in no other.
func (q *stored) scheduler() (*schedule.Scheduler, error) {
	if q.namespace == catalog.DefaultNamespace || q.catalog == nil {
		return q.slots, nil
	}
	n, err := q.catalog.Namespace(q.Context(), q.namespace)
	if err == nil && n.Deleting && q.Method != http.MethodGet {
		err = fmt.Errorf("namespace %q is being deleted: %w", q.namespace, catalog.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return q.slots.In(q.namespace)
}

// scheduledWith is scheduled for a function that reads a body.
func scheduledWith[T any](handle func(*slots, http.ResponseWriter, *T) error) handler {
	return scheduled(func(q *slots, w http.ResponseWriter) error {
		body, err := read[T](q.Request)
		if err != nil {
			return err
		}
		return handle(q, w, body)
	})
}

func (q *slots) plans(w http.ResponseWriter) error {
	all, err := q.Plans(q.Context(), q.cursor, q.most)
	if err != nil {
		return err
	}
	next := ""
	if len(all) == q.most {
		next = all[len(all)-1].Name
	}
	return list(w, map[string]any{"plans": orEmpty(all), "next": next}, nil)
}

// setPlan makes a new version of a plan the active one.
func (q *slots) setPlan(w http.ResponseWriter, b *struct {
	Name         string             `json:"name"`
	Version      int                `json:"version"` // the one to replace; or in If-Match
	MaxPerWindow int                `json:"maxPerWindow"`
	WindowSize   duration           `json:"windowSize"`
	Headroom     *int               `json:"headroom"`
	Calendar     *schedule.Calendar `json:"calendar"`
	Target       *schedule.Target   `json:"target"`
}) error {
	if q.version != 0 {
		b.Version = int(q.version)
	}
	headroom := 0 // the default
	if b.Headroom != nil {
		if headroom = *b.Headroom; headroom == 0 {
			return badinput.Field("headroom", 0, "must be at least 1; leave it out for the default")
		}
	}
	if b.Target != nil {
		if q.targets == nil {
			return badinput.Field("target", b.Target.URL, "this server calls no targets")
		}
		var err error
		if b.Target, err = q.targets.Seal(q.Namespace(), cmp.Or(b.Name, schedule.DefaultPlan), b.Target); err != nil {
			return err
		}
	}
	set, err := q.SetPlan(q.Context(), schedule.Plan{
		Name: b.Name, Version: b.Version, MaxPerWindow: b.MaxPerWindow, WindowSize: time.Duration(b.WindowSize), Headroom: headroom, Calendar: b.Calendar, Target: b.Target,
	})
	return show(w, http.StatusOK, set, int64(set.Version), err)
}

func (q *slots) plan(w http.ResponseWriter) error {
	p, err := q.Plan(q.Context(), q.PathValue("plan"))
	return show(w, http.StatusOK, p, int64(p.Version), err)
}

func (q *slots) versions(w http.ResponseWriter) error {
	all, err := q.Versions(q.Context(), q.PathValue("plan"), q.most)
	return list(w, map[string]any{"plans": orEmpty(all)}, err)
}

func (q *slots) pause(w http.ResponseWriter) error {
	return done(w, q.Pause(q.Context(), q.PathValue("plan")))
}

func (q *slots) resume(w http.ResponseWriter) error {
	return done(w, q.Resume(q.Context(), q.PathValue("plan")))
}

func (q *slots) flush(w http.ResponseWriter) error { return done(w, q.Flush(q.Context())) }

// load is the upcoming load as a histogram.
func (q *slots) load(w http.ResponseWriter) error {
	from, err := q.time("from")
	if err != nil {
		return err
	}
	if from.IsZero() {
		from = q.Now()
	}
	step, err := readDuration("step", q.query.Get("step"), time.Minute)
	if err != nil {
		return err
	}
	bars, err := readMax(q.query.Get("bars"))
	if err != nil {
		return err
	}
	h, err := q.Load(q.Context(), q.PathValue("plan"), from, step, bars)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, "application/json", struct {
		Plan string         `json:"plan"`
		Step string         `json:"step"`
		Bars []schedule.Bar `json:"bars"`
	}{h.Plan, h.Step.String(), h.Bars})
	return nil
}

func readDuration(field, s string, otherwise time.Duration) (time.Duration, error) {
	if s == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, badinput.Field(field, s, "must be a duration such as 1m")
	}
	return d, nil
}

// window lists what is scheduled in the window of a time.
func (q *slots) window(w http.ResponseWriter) error {
	at, err := q.time("at")
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = q.Now()
	}
	return q.page(w, func(after schedule.Position) (schedule.SlotPage, error) {
		return q.WindowOf(q.Context(), q.PathValue("plan"), at, after, q.most)
	})
}

// failed lists what has failed.
func (q *slots) failed(w http.ResponseWriter) error {
	return q.page(w, func(after schedule.Position) (schedule.SlotPage, error) {
		return q.Failed(q.Context(), q.PathValue("plan"), after, q.most)
	})
}

// unknown lists what may have been executed.
func (q *slots) unknown(w http.ResponseWriter) error {
	return q.page(w, func(after schedule.Position) (schedule.SlotPage, error) {
		return q.InDoubt(q.Context(), q.PathValue("plan"), after, q.most)
	})
}

func (q *slots) requeue(w http.ResponseWriter) error {
	slot, err := q.Requeue(q.Context(), q.PathValue("event"), q.query.Get("reason"))
	return list(w, slot, err)
}

func (q *slots) requeueFailed(w http.ResponseWriter) error {
	n, err := q.RequeueFailed(q.Context(), q.PathValue("plan"), q.query.Get("reason"))
	return list(w, map[string]any{"requeued": n}, err)
}

// page answers with a page of slots that comes after the cursor.
func (q *slots) page(w http.ResponseWriter, read func(after schedule.Position) (schedule.SlotPage, error)) error {
	var after schedule.Position
	cursor, err := catalog.DecodeCursor(q.cursor, 2)
	if err != nil {
		return err
	}
	if len(cursor) > 0 {
		after.Event = cursor[1]
		if after.Scheduled, err = strconv.ParseInt(cursor[0], 10, 64); err != nil {
			return badinput.Field("cursor", q.cursor, "must be next of the previous page")
		}
	}
	page, err := read(after)
	if err != nil {
		return err
	}
	next := ""
	if page.Next != nil {
		next = catalog.EncodeCursor(strconv.FormatInt(page.Next.Scheduled, 10), page.Next.Event)
	}
	return list(w, map[string]any{"slots": orEmpty(page.Slots), "next": next}, nil)
}

func (q *slots) assign(w http.ResponseWriter, request *schedule.Request) error {
	slot, err := q.Assign(q.Context(), *request)
	return list(w, slot, err)
}

func (q *slots) batch(w http.ResponseWriter, request *struct {
	Events slotRequests `json:"events"`
}) error {
	results, err := q.AssignBatch(q.Context(), request.Events)
	return list(w, map[string]any{"results": results}, err)
}

// slotRequests are as many as a batch may have. They are counted as they are
// read, for a large body could have a great many small ones.
type slotRequests []schedule.Request

func (all *slotRequests) UnmarshalJSON(b []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if t, err := decoder.Token(); err != nil || t != json.Delim('[') {
		return badinput.Field("events", string(b), "must be a list")
	}
	for decoder.More() {
		if len(*all) == schedule.MaxBatch {
			return badinput.Field("events", "more", fmt.Sprintf("must be at most %d", schedule.MaxBatch))
		}
		var one schedule.Request
		if err := decoder.Decode(&one); err != nil {
			return badBody(err, reflect.TypeFor[schedule.Request]())
		}
		*all = append(*all, one)
	}
	return nil
}

// reconcile finds slots that were assigned and never started. Over HTTP nobody
// can be asked whether they did, so whoever calls without dryRun says that
// those found did not.
func (q *slots) reconcile(w http.ResponseWriter, body *struct {
	Plan    string   `json:"plan"`
	Age     duration `json:"age"`
	Overdue bool     `json:"overdue"`
	DryRun  bool     `json:"dryRun"`
	Started []string `json:"started"` // events that did, to be confirmed
}) error {
	did := map[string]bool{}
	for _, event := range body.Started {
		did[event] = true
	}
	report, err := q.Reconcile(q.Context(), schedule.Reconciliation{
		Plan: body.Plan, Age: time.Duration(body.Age), Overdue: body.Overdue, DryRun: body.DryRun,
		Started: func(_ context.Context, s schedule.Slot) (bool, error) { return did[s.Event], nil },
	})
	if err != nil {
		return err
	}
	report.Leaked = orEmpty(report.Leaked)
	return list(w, report, nil)
}

func (q *slots) event(w http.ResponseWriter) error {
	slot, err := q.Slot(q.Context(), q.PathValue("event"))
	return list(w, slot, err)
}

func (q *slots) cancel(w http.ResponseWriter) error {
	slot, err := q.Cancel(q.Context(), q.PathValue("event"), q.query.Get("reason"))
	return list(w, slot, err)
}

func (q *slots) confirm(w http.ResponseWriter) error {
	slot, err := q.Confirm(q.Context(), q.PathValue("event"), q.worker(q.query.Get("worker")))
	return list(w, slot, err)
}

// worker is the name of a process of the caller.
func (q *slots) worker(name string) string {
	if name == "" {
		return q.caller.name
	}
	return q.caller.name + "/" + name
}

// work hands out what is due.
func (q *slots) work(w http.ResponseWriter, b *struct {
	Plan   string   `json:"plan"`
	Worker string   `json:"worker"` // tells processes of one caller apart
	Life   duration `json:"life"`
	Max    int      `json:"max"`
}) error {
	all, err := q.Work(q.Context(), schedule.Offer{Plan: b.Plan, Worker: q.worker(b.Worker), Life: time.Duration(b.Life), Max: b.Max})
	return list(w, map[string]any{"slots": orEmpty(all)}, err)
}

func (q *slots) extend(w http.ResponseWriter, b *struct {
	Fence int64    `json:"fence"`
	Life  duration `json:"life"`
}) error {
	return done(w, q.Extend(q.Context(), q.PathValue("event"), b.Fence, time.Duration(b.Life)))
}

// fail notes that an attempt failed, and answers when the next one is due.
func (q *slots) fail(w http.ResponseWriter, b *struct {
	Fence  int64  `json:"fence"`
	Reason string `json:"reason"`
}) error {
	slot, err := q.Fail(q.Context(), q.PathValue("event"), b.Fence, b.Reason)
	return list(w, slot, err)
}

// complete notes how an event ended that was confirmed, or is unknown.
func (q *slots) complete(w http.ResponseWriter, b *struct {
	Fence   int64  `json:"fence"`
	Failure string `json:"failure"` // what went wrong; "" if nothing did
}) error {
	var failure error
	if b.Failure != "" {
		failure = errors.New(b.Failure)
	}
	return done(w, q.Complete(q.Context(), q.PathValue("event"), b.Fence, failure))
}

func (q *slots) audit(w http.ResponseWriter) error {
	var before int64
	if text := q.query.Get("before"); text != "" {
		var err error
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return badinput.Field("before", text, "must be the id of an entry")
		}
	}
	entries, err := q.Audit(q.Context(), schedule.AuditQuery{Event: q.query.Get("event"), Plan: q.query.Get("plan"), Before: before, Max: q.most})
	return list(w, map[string]any{"entries": orEmpty(entries)}, err)
}
