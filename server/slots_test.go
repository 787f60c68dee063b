package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/schedule"
)

func TestSlots(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	plan := must(c.SetSlotPlan(ctx, schedule.Plan{Name: "mail", MaxPerWindow: 2, WindowSize: time.Minute, Headroom: 5,
		Calendar: &schedule.Calendar{Zone: "UTC", Holidays: []string{"1999-12-31"}}}))(t)
	if plan.Version != 1 || !plan.Active || plan.WindowSize != time.Minute {
		t.Errorf("%+v", plan)
	}
	plan.MaxPerWindow = 3
	if plan = must(c.SetSlotPlan(ctx, plan))(t); plan.Version != 2 {
		t.Errorf("%+v", plan)
	}
	if _, err := c.SetSlotPlan(ctx, schedule.Plan{Name: "mail", Version: 1}); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("%v", err)
	}
	if got := must(c.SlotPlan(ctx, "mail"))(t); got.Version != 2 || got.MaxPerWindow != 3 {
		t.Errorf("%+v", got)
	}
	if all := must(c.SlotPlanVersions(ctx, "mail", 0))(t); len(all) != 2 || all[0].Version != 2 {
		t.Errorf("%+v", all)
	}
	must(c.SetSlotPlan(ctx, schedule.Plan{Name: "post"}))(t)
	page := must(c.SlotPlans(ctx, client.Page{Max: 1}))(t)
	if len(page.Plans) != 1 || page.Plans[0].Name != "mail" || page.Next != "mail" {
		t.Errorf("%+v", page)
	}
	if page = must(c.SlotPlans(ctx, client.Page{Max: 5, Cursor: page.Next}))(t); len(page.Plans) != 1 || page.Plans[0].Name != "post" {
		t.Errorf("%+v", page)
	}

	at := time.Now().Add(time.Hour).Truncate(time.Minute)
	slot := must(c.AssignSlot(ctx, schedule.Request{Event: "order/1", Plan: "mail", At: at, Payload: json.RawMessage(`{"to":"a"}`)}))(t)
	if slot.Scheduled.Before(at) || slot.State != schedule.Waiting || string(slot.Payload) != `{"to":"a"}` {
		t.Errorf("%+v", slot)
	}
	if again := must(c.AssignSlot(ctx, schedule.Request{Event: "order/1", Plan: "mail"}))(t); !again.Existing || !again.Scheduled.Equal(slot.Scheduled) {
		t.Errorf("%+v", again)
	}
	var events []schedule.Request
	for i := range 5 {
		events = append(events, schedule.Request{Event: fmt.Sprintf("e%d", i), Plan: "mail", At: at})
	}
	events = append(events, schedule.Request{Event: "", Plan: "mail"})
	results := must(c.AssignSlots(ctx, events))(t)
	if len(results) != 6 || results[5].Err == nil || results[0].Err != nil || results[4].Slot.Event != "e4" {
		t.Errorf("%+v", results)
	}
	window := must(c.SlotWindow(ctx, "mail", at, client.Page{Max: 2}))(t)
	if len(window.Slots) != 2 || window.Next == "" {
		t.Fatalf("%+v", window)
	}
	if rest := must(c.SlotWindow(ctx, "mail", at, client.Page{Max: 2, Cursor: window.Next}))(t); len(rest.Slots) != 1 || rest.Slots[0].Scheduled.Before(window.Slots[1].Scheduled) {
		t.Errorf("%+v", rest)
	}
	load := must(c.SlotLoad(ctx, "mail", at, time.Minute, 3))(t)
	if load.Step != time.Minute || len(load.Bars) != 3 || load.Bars[0].Events != 3 || load.Bars[0].Capacity != 3 || load.Bars[1].Events != 3 {
		t.Errorf("%+v", load)
	}

	if got := must(c.Slot(ctx, "order/1"))(t); got.Event != "order/1" {
		t.Errorf("%+v", got)
	}
	running := must(c.ConfirmSlot(ctx, "order/1", "a"))(t)
	if again := must(c.ConfirmSlot(ctx, "order/1", "a"))(t); again.Fence != running.Fence {
		t.Errorf("%+v", again)
	}
	if _, err := c.ConfirmSlot(ctx, "order/1", "b"); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("%v", err)
	}
	if running.State != schedule.Running || running.Worker != "admin/a" {
		t.Errorf("%+v", running)
	}
	if err := c.CompleteSlot(ctx, "order/1", running.Fence+1, ""); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := c.CompleteSlot(ctx, "order/1", running.Fence, ""); err != nil {
			t.Error(err)
		}
	}
	if got := must(c.Slot(ctx, "order/1"))(t); got.State != schedule.Done {
		t.Errorf("%+v", got)
	}
	if got := must(c.CancelSlot(ctx, "e0", "not wanted"))(t); got.State != schedule.Cancelled {
		t.Errorf("%+v", got)
	}
	if _, err := c.CancelSlot(ctx, "order/1", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("%v", err)
	}
	entries := must(c.SlotAudit(ctx, schedule.AuditQuery{Event: "order/1"}))(t)
	if len(entries) != 2 || entries[0].Action != schedule.Finished || entries[1].Action != schedule.Confirmed {
		t.Errorf("%+v", entries)
	}
	if older := must(c.SlotAudit(ctx, schedule.AuditQuery{Event: "order/1", Before: entries[0].ID}))(t); len(older) != 1 {
		t.Errorf("%+v", older)
	}

	report := must(c.ReconcileSlots(ctx, client.SlotReconciliation{Plan: "mail", Age: time.Nanosecond, DryRun: true}))(t)
	if report.Looked != 4 || len(report.Leaked) != 4 || report.Reclaimed != 0 {
		t.Errorf("%+v", report)
	}
	report = must(c.ReconcileSlots(ctx, client.SlotReconciliation{Plan: "mail", Age: time.Nanosecond, Started: []string{"e1"}}))(t)
	if report.Reclaimed != 3 || report.Confirmed != 1 {
		t.Errorf("%+v", report)
	}
	if got := must(c.Slot(ctx, "e2"))(t); got.State != schedule.Leaked {
		t.Errorf("%+v", got)
	}

	if slot := must(c.RequeueSlot(ctx, "e2", "found"))(t); slot.State != schedule.Waiting {
		t.Errorf("%+v", slot)
	}
	bad := must(c.ConfirmSlot(ctx, "e2", ""))(t)
	if err := c.CompleteSlot(ctx, "e2", bad.Fence, "no"); err != nil {
		t.Error(err)
	}
	if failed := must(c.FailedSlots(ctx, "mail", client.Page{}))(t); len(failed.Slots) != 1 || failed.Slots[0].Event != "e2" {
		t.Errorf("%+v", failed)
	}
	must(c.SetSlotPlan(ctx, schedule.Plan{Name: "now", WindowSize: time.Millisecond}))(t)
	must(c.AssignSlot(ctx, schedule.Request{Event: "due", Plan: "now", Payload: json.RawMessage(`7`)}))(t)
	var work []schedule.Slot
	for len(work) == 0 {
		work = must(c.WorkSlots(ctx, schedule.Offer{Plan: "now", Worker: "w1", Max: 5}))(t)
	}
	if len(work) != 1 || work[0].Worker != "admin/w1" || string(work[0].Payload) != "7" {
		t.Fatalf("%+v", work)
	}
	if err := c.ExtendSlot(ctx, "due", work[0].Fence, time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.ExtendSlot(ctx, "due", work[0].Fence+1, 0); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("%v", err)
	}
	if slot := must(c.FailSlot(ctx, "due", work[0].Fence, "no"))(t); slot.State != schedule.Waiting || slot.Due.IsZero() {
		t.Errorf("%+v", slot)
	}
	if n := must(c.RequeueFailedSlots(ctx, "mail", "mended"))(t); n != 1 {
		t.Errorf("%d", n)
	}
	if err := c.PauseSlotPlan(ctx, "mail"); err != nil {
		t.Error(err)
	}
	if got := must(c.SlotPlan(ctx, "mail"))(t); !got.Paused {
		t.Errorf("%+v", got)
	}
	if _, err := c.ReconcileSlots(ctx, client.SlotReconciliation{Plan: "mail", Age: time.Nanosecond}); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("%v", err)
	}
	if err := c.ResumeSlotPlan(ctx, "mail"); err != nil {
		t.Error(err)
	}
	if err := c.FlushSlotPlans(ctx); err != nil {
		t.Error(err)
	}
}

func TestSlotProblems(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetSlotPlan(ctx, schedule.Plan{Name: "tiny", MaxPerWindow: 1, WindowSize: time.Hour, Headroom: 1}))(t)
	var e *client.Error
	for i := range 5 {
		if _, err := c.AssignSlot(ctx, schedule.Request{Event: fmt.Sprint(i), Plan: "tiny"}); errors.As(err, &e) {
			break
		}
	}
	_, err := c.AssignSlot(ctx, schedule.Request{Event: "x", Plan: "none"})
	if !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("%v", err)
	}
	admin := bearer(adminToken)
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/v1/slots/plans", `{"name":"a b"}`, "plan"},
		{"POST", "/v1/slots/plans", `{"name":"x","windowSize":"fast"}`, "windowSize"},
		{"POST", "/v1/slots/plans", `{"name":"x","windowsize":"4s","max":1}`, "body"},
		{"POST", "/v1/slots/plans", `{"name":"x","maxPerWindow":"many"}`, "maxPerWindow"},
		{"POST", "/v1/slots/plans", `{"name":"x","calendar":{"zone":"Moon"}}`, "calendar.zone"},
		{"POST", "/v1/slots/assign", `{"event":""}`, "event"},
		{"POST", "/v1/slots/assign", `{"event":"x","at":"now"}`, "body"},
		{"POST", "/v1/slots/batch", `{"events":[]}`, "requests"},
		{"POST", "/v1/slots/batch", `{"events":7}`, "events"},
		{"POST", "/v1/slots/batch", `{"events":[` + strings.Repeat("{},", 10_000) + `{}]}`, "events"},
		{"POST", "/v1/slots/batch", `{"events":[{"evnt":"x"}]}`, "body"},
		{"GET", "/v1/slots/plans/tiny/load?bars=0", ``, "max"},
		{"GET", "/v1/slots/plans/tiny/load?step=0s", ``, "step"},
		{"GET", "/v1/slots/plans/tiny/window?cursor=x", ``, "cursor"},
		{"GET", "/v1/slots/audit", ``, "audit"},
		{"GET", "/v1/slots/audit?plan=tiny&before=x", ``, "before"},
		{"POST", "/v1/slots/reconcile", `{"age":"-1s"}`, "age"},
	} {
		if r := s.raw(t, c.method, c.path, c.body, admin); r.status != 400 || r.json["field"] != c.field {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
	admin["Sluice-Namespace"] = "other"
	if r := s.raw(t, "GET", "/v1/slots/plans", "", admin); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
