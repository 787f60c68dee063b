package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/schedule"
)

func slotsCommand() *command {
	return &command{
		name: "slots", summary: "moments reserved for work: plans, assignment, load",
		sub: []*command{
			slotPlanCommand(), slotAssignCommand(), slotBatchCommand(), slotStatusCommand(), slotCancelCommand(),
			slotConfirmCommand(), slotCompleteCommand(), slotLoadCommand(), slotWindowCommand(),
			slotSwitchCommand("pause", "stop dispatchers from starting work of a plan", "paused", (*client.Client).PauseSlotPlan),
			slotSwitchCommand("resume", "let dispatchers go on with a plan", "resumed", (*client.Client).ResumeSlotPlan),
			slotFlushCommand(), slotReconcileCommand(), slotAuditCommand(),
		},
		examples: []string{
			"sluice slots plan set mail --max-per-window 100 --window 4s",
			"sluice slots assign order-17 --plan mail",
			"sluice slots load mail --step 1h --bars 24",
		},
	}
}

// plan is the plan that an argument names.
func (c *call) plan(n int) string {
	if name := c.arg(n); name != "" {
		return name
	}
	return schedule.DefaultPlan
}

func (c *call) slot(s *schedule.Slot, err error) error {
	if err != nil {
		return c.trouble(orCreate(err))
	}
	return c.printAnswer(func(w io.Writer) error {
		attempts := ""
		if s.Attempts > 0 {
			attempts = number(s.Attempts)
		}
		fence := ""
		if s.Fence > 0 {
			fence = number(s.Fence)
		}
		return fields{
			{"event", s.Event}, {"plan", fmt.Sprintf("%s, version %d", s.Plan, s.Version)}, {"state", s.State.String()},
			{"scheduled", fine(s.Scheduled)}, {"window", moment(s.Window)}, {"requested", fine(s.Requested)},
			{"attempts", attempts}, {"due", fine(s.Due)}, {"worker", s.Worker}, {"fence", fence},
			{"payload", string(s.Payload)}, {"had it already", yes(s.Existing)},
		}.writeTo(w)
	})
}

// fine is a moment to the millisecond: slots lie close together.
func fine(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

func slotAssignCommand() *command {
	r := schedule.Request{}
	at := instant{ahead: true}
	var payload string
	return &command{
		name: "assign", args: "EVENT", summary: "give an event its slot; asked again, it is the same",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&r.Plan, "plan", schedule.DefaultPlan, "plan | the plan to go by")
			f.Var(&at, "at", "time | not before when: a time, or 10m from now (default now)")
			f.StringVar(&payload, "payload", "", "JSON | JSON for the worker")
		},
		examples: []string{"sluice slots assign order-17 --plan mail --at 2h --payload '{\"to\":\"alice\"}'"},
		run: func(ctx context.Context, c *call) error {
			r.Event, r.At = c.arg(0), at.Time
			if payload != "" {
				if !json.Valid([]byte(payload)) {
					return c.wrong("--payload: is not JSON")
				}
				r.Payload = json.RawMessage(payload)
			}
			s, err := c.client.AssignSlot(ctx, r)
			return c.slot(&s, err)
		},
	}
}

const batchSlots = 5000

func slotBatchCommand() *command {
	return &command{
		name: "batch", args: "FILE", summary: "give slots to many events: JSON lines, - is the standard input",
		about: `A
line is an object with event and, if wanted, plan, at and payload. Events that get
no slot are reported, and it exits with 2. It can be run again as it is.`,
		examples: []string{"sluice slots batch events.jsonl", `echo '{"event":"order-17","plan":"mail"}' | sluice slots batch -`},
		run: func(ctx context.Context, c *call) error {
			file, err := c.input(c.arg(0))
			if err != nil {
				return err
			}
			defer file.Close()
			assigned, failed := 0, 0
			encoder := json.NewEncoder(c.stdout)
			err = lines(c.arg(0), file, batchSlots, func(_ int, batch []schedule.Request) error {
				results, err := c.client.AssignSlots(ctx, batch)
				if err != nil {
					return c.trouble(orCreate(err))
				}
				for i := range results {
					if results[i].Err != nil {
						failed++
					} else {
						assigned++
					}
					if c.json {
						err = encoder.Encode(struct {
							Event  string          `json:"event"`
							Result schedule.Result `json:"result"`
						}{batch[i].Event, results[i]})
					} else if results[i].Err != nil {
						_, err = fmt.Fprintf(c.stdout, "%s: %v\n", printable(batch[i].Event), orCreate(results[i].Err))
					} else {
						_, err = fmt.Fprintf(c.stdout, "%s: %s\n", printable(batch[i].Event), fine(results[i].Slot.Scheduled))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d events got no slot, %d did", failed, assigned)
			}
			return nil
		},
	}
}

func slotStatusCommand() *command {
	return &command{
		name: "status", args: "EVENT", summary: "show the slot of an event", examples: []string{"sluice slots status order-17"},
		run: func(ctx context.Context, c *call) error {
			s, err := c.client.Slot(ctx, c.arg(0))
			return c.slot(&s, err)
		},
	}
}

func slotCancelCommand() *command {
	var reason reasonFlag
	return &command{
		name: "cancel", args: "EVENT", summary: "take back a slot that nobody has started",
		flags: reason.define, examples: []string{"sluice slots cancel order-17 --reason 'order withdrawn'"},
		run: func(ctx context.Context, c *call) error {
			s, err := c.client.CancelSlot(ctx, c.arg(0), string(reason))
			return c.slot(&s, err)
		},
	}
}

func slotConfirmCommand() *command {
	return &command{
		name: "confirm", args: "EVENT", summary: "note that you have started an event yourself",
		about: "No dispatcher\nruns it then. The fence goes with complete.", examples: []string{"sluice slots confirm order-17"},
		run: func(ctx context.Context, c *call) error {
			s, err := c.client.ConfirmSlot(ctx, c.arg(0))
			return c.slot(&s, err)
		},
	}
}

func slotCompleteCommand() *command {
	var fence int64
	var failure string
	return &command{
		name: "complete", args: "EVENT", summary: "note how an event ended that was confirmed",
		flags: func(f *flag.FlagSet) {
			f.Int64Var(&fence, "fence", 0, "number | the number that confirm answered")
			f.StringVar(&failure, "failure", "", "text | what went wrong, if it did")
		},
		examples: []string{"sluice slots complete order-17 --fence 1", "sluice slots complete order-17 --fence 1 --failure 'no such address'"},
		run: func(ctx context.Context, c *call) error {
			if fence == 0 {
				return c.wrong("want --fence, as confirm answered it")
			}
			if err := c.client.CompleteSlot(ctx, c.arg(0), fence, failure); err != nil {
				return c.trouble(err)
			}
			return c.done("noted")
		},
	}
}

func slotLoadCommand() *command {
	from := instant{ahead: true}
	var step period
	var bars, width int
	return &command{
		name: "load", args: "[PLAN]", summary: "draw how many events are scheduled from now on",
		flags: func(f *flag.FlagSet) {
			f.Var(&from, "from", "time | from when on: a time, or 1h from now (default now)")
			f.Var(&step, "step", "duration | how long a line stands for (default 1m)")
			f.IntVar(&bars, "bars", 30, "number | how many lines")
			f.IntVar(&width, "width", 0, "number | how many columns wide (default the terminal's)")
		},
		examples: []string{"sluice slots load", "sluice slots load mail --step 1h --bars 24"},
		run: func(ctx context.Context, c *call) error {
			if step == 0 {
				step = period(time.Minute)
			}
			h, err := c.client.SlotLoad(ctx, c.plan(0), from.Time, time.Duration(step), bars)
			if err != nil {
				return c.trouble(orCreate(err))
			}
			h.Step = time.Duration(step)
			if width == 0 {
				width = c.columns()
			}
			return c.printAnswer(func(w io.Writer) error { return h.Write(w, width) })
		},
	}
}

func slotRow(s *schedule.Slot) []string {
	return []string{s.Event, s.State.String(), fine(s.Scheduled), fine(s.Requested), number(s.Attempts), s.Worker}
}

func slotWindowCommand() *command {
	at := instant{ahead: true}
	var most length
	return &command{
		name: "window", args: "[PLAN]", summary: "list what is scheduled in the window of a moment",
		flags: func(f *flag.FlagSet) {
			f.Var(&at, "at", "time | when: a time, or 10m from now (default now)")
			most.define(f)
		},
		examples: []string{"sluice slots window mail", "sluice slots window mail --at 2026-01-31T12:00:00Z"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]schedule.Slot, string, error) {
				page, err := c.client.SlotWindow(ctx, c.plan(0), at.Time, p)
				return page.Slots, page.Next, orCreate(err)
			})
			if err != nil {
				return err
			}
			return printList(c, "slots", all, more, newTable("EVENT", "STATE", "SCHEDULED", "REQUESTED", ">ATTEMPTS", "WORKER"), slotRow)
		},
	}
}

func slotSwitchCommand(name, summary, did string, do func(*client.Client, context.Context, string) error) *command {
	return &command{
		name: name, args: "[PLAN]", summary: summary, examples: []string{"sluice slots " + name + " mail"},
		run: func(ctx context.Context, c *call) error {
			if err := do(c.client, ctx, c.plan(0)); err != nil {
				return c.trouble(orCreate(err))
			}
			return c.done("%s %s", did, printable(c.plan(0)))
		},
	}
}

func slotFlushCommand() *command {
	return &command{
		name: "flush", summary: "make every node read the plans anew", examples: []string{"sluice slots flush"},
		run: func(ctx context.Context, c *call) error {
			if err := c.client.FlushSlotPlans(ctx); err != nil {
				return c.trouble(err)
			}
			return c.done("flushed")
		},
	}
}

func slotReconcileCommand() *command {
	r := client.SlotReconciliation{}
	var age period
	var started names
	return &command{
		name: "reconcile", args: "[PLAN]", summary: "find slots that nobody ever started, and give their room back",
		about: `Without
--dry-run you say that all but those in --started never did. For plans that a
dispatcher runs, use --overdue.`,
		flags: func(f *flag.FlagSet) {
			f.Var(&age, "age", "duration | assigned at least so long ago (default 10m)")
			f.BoolVar(&r.Overdue, "overdue", false, "only those whose time has passed")
			f.BoolVar(&r.DryRun, "dry-run", false, "only tell what would be reclaimed")
			f.Var(&started, "started", "event | an event that did start; may be repeated")
		},
		examples: []string{"sluice slots reconcile mail --overdue --dry-run"},
		run: func(ctx context.Context, c *call) error {
			r.Plan, r.Age, r.Started = c.plan(0), time.Duration(age), started
			report, err := c.client.ReconcileSlots(ctx, r)
			if err != nil {
				return c.trouble(orCreate(err))
			}
			return c.printAnswer(func(w io.Writer) error {
				if _, err := fmt.Fprintf(w, "%d looked at, %d had started, %d reclaimed, %d leaked\n", report.Looked, report.Confirmed, report.Reclaimed, len(report.Leaked)); err != nil {
					return err
				}
				if len(report.Leaked) == 0 {
					return nil
				}
				t := newTable("EVENT", "STATE", "SCHEDULED", "REQUESTED", ">ATTEMPTS", "WORKER")
				for i := range report.Leaked {
					t.add(slotRow(&report.Leaked[i])...)
				}
				return t.writeTo(w)
			})
		},
	}
}

func slotAuditCommand() *command {
	var q schedule.AuditQuery
	return &command{
		name: "audit", summary: "list what happened to an event or a plan, the newest first",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&q.Event, "event", "", "event | of this event")
			f.StringVar(&q.Plan, "plan", "", "plan | or of this plan")
			f.IntVar(&q.Max, "max", 100, "number | show at most this many, up to 1000")
		},
		examples: []string{"sluice slots audit --event order-17", "sluice slots audit --plan mail"},
		run: func(ctx context.Context, c *call) error {
			if (q.Event == "") == (q.Plan == "") {
				return c.wrong("want --event or --plan")
			}
			all, err := c.client.SlotAudit(ctx, q)
			if err != nil {
				return c.trouble(err)
			}
			return printList(c, "entries", all, false, newTable("TIME", "PLAN", "EVENT", "DID", ">ATTEMPT", "WORKER", "DETAIL"), func(e *schedule.Entry) []string {
				attempt := ""
				if e.Attempt > 0 {
					attempt = number(e.Attempt)
				}
				return []string{fine(e.Time), e.Plan, e.Event, string(e.Action), attempt, e.Worker, e.Detail}
			})
		},
	}
}
