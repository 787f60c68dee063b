package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/schedule"
)

func slotsCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "slots", Short: "assign events to future moments, and watch the load",
		Example: `sluice slots plan set mail --max-per-window 100 --window 4s
sluice slots assign order-17 --plan mail
sluice slots load mail --step 1h --bars 24`,
	}, slotPlanCommand(), slotAssignCommand(), slotBatchCommand(), slotStatusCommand(), slotCancelCommand(),
		slotConfirmCommand(), slotCompleteCommand(), slotWorkCommand(), slotFailedCommand(), slotUnknownCommand(), slotRequeueCommand(), slotLoadCommand(), slotWindowCommand(),
		slotSwitchCommand("pause", "stop dispatchers from starting work of a plan", "paused", (*client.Client).PauseSlotPlan),
		slotSwitchCommand("resume", "let dispatchers go on with a plan", "resumed", (*client.Client).ResumeSlotPlan),
		slotFlushCommand(), slotReconcileCommand(), slotAuditCommand())
}

// plan is the plan that an argument names.
func (c *call) plan(n int) string {
	if name := c.arg(n); name != "" {
		return name
	}
	return schedule.DefaultPlan
}

func (c *call) slot(s *schedule.Slot, err error) error {
	attempts, fence := "", ""
	if s.Attempts > 0 {
		attempts = number(s.Attempts)
	}
	if s.Fence > 0 {
		fence = number(s.Fence)
	}
	return c.printAnswer(orCreate(err), fields{
		{"event", s.Event}, {"plan", fmt.Sprintf("%s, version %d", s.Plan, s.Version)}, {"state", s.State.String()},
		{"scheduled", fine(s.Scheduled)}, {"window", moment(s.Window)}, {"requested", fine(s.Requested)},
		{"attempts", attempts}, {"due", fine(s.Due)}, {"worker", s.Worker}, {"fence", fence},
		{"payload", string(s.Payload)}, {"had it already", yes(s.Existing)},
	}.String())
}

// fine is a moment to the millisecond: slots lie close together.
func fine(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

func slotAssignCommand() *cobra.Command {
	r := schedule.Request{}
	at, notAfter := instant{ahead: true}, instant{ahead: true}
	var payload string
	return online(&cobra.Command{
		Use: "assign EVENT", Short: "assign a slot to an event; repeating it returns the same slot",
		Example: `sluice slots assign order-17 --plan mail --at 2h --payload '{"to":"alice"}'`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&r.Plan, "plan", schedule.DefaultPlan, "the `plan`")
		f.Var(&at, "at", "earliest `time`, or 10m for ten minutes from now (default now)")
		f.Var(&notAfter, "not-after", "latest `time` for the event to be scheduled for (default as far as the plan's headroom reaches)")
		f.StringVar(&payload, "payload", "", "what the worker gets, as `JSON`")
	}, func(ctx context.Context, c *call) error {
		r.Event, r.At, r.NotAfter = c.arg(0), at.Time, notAfter.Time
		if payload != "" {
			if !json.Valid([]byte(payload)) {
				return c.wrong("--payload: is not JSON")
			}
			r.Payload = json.RawMessage(payload)
		}
		s, err := c.client.AssignSlot(ctx, r)
		return c.slot(&s, err)
	})
}

const batchSlots = 5000

func slotBatchCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "batch FILE", Short: "assign slots to many events, from a file of JSON lines",
		Long: `A line is an object with event and, optionally, plan, at and payload; - is
standard input. Events that get no slot are reported, and the exit code is 2.
The command is safe to repeat.`,
		Example: `sluice slots batch events.jsonl
echo '{"event":"order-17","plan":"mail"}' | sluice slots batch -`,
	}, nil, func(ctx context.Context, c *call) error {
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
				return orCreate(err)
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
	})
}

func slotStatusCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "status EVENT", Short: "show the slot of an event",
		Example: "sluice slots status order-17",
	}, nil, func(ctx context.Context, c *call) error {
		s, err := c.client.Slot(ctx, c.arg(0))
		return c.slot(&s, err)
	})
}

func slotCancelCommand() *cobra.Command {
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "cancel EVENT", Short: "cancel an event that has not been started, has failed or is unknown",
		Example: "sluice slots cancel order-17 --reason 'order withdrawn'",
	}, reason.define, func(ctx context.Context, c *call) error {
		s, err := c.client.CancelSlot(ctx, c.arg(0), string(reason))
		return c.slot(&s, err)
	})
}

func slotFailedCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "failed [PLAN]", Short: "list events that have failed for the last time",
		Example: "sluice slots failed mail",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]schedule.Slot, string, error) {
			page, err := c.client.FailedSlots(ctx, c.plan(0), p)
			return page.Slots, page.Next, orCreate(err)
		})
		return printList(c, err, "slots", all, more, slotTable(), slotRow)
	})
}

func slotUnknownCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "unknown [PLAN]", Short: "list events that may have been executed, and that nobody knows of",
		Long: `They stay so until you settle them: find out from the target what happened, and use
complete with the fence that status prints, requeue or cancel.`,
		Example: "sluice slots unknown mail",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]schedule.Slot, string, error) {
			page, err := c.client.UnknownSlots(ctx, c.plan(0), p)
			return page.Slots, page.Next, orCreate(err)
		})
		return printList(c, err, "slots", all, more, slotTable(), slotRow)
	})
}

func slotRequeueCommand() *cobra.Command {
	var reason reasonFlag
	var plan string
	return online(&cobra.Command{
		Use: "requeue [EVENT]", Short: "try an event again that has failed or is unknown, or all that have failed of a plan",
		Example: `sluice slots requeue order-17
sluice slots requeue --plan mail --reason 'the mail server is back'`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&plan, "plan", "", "all failed events of this `plan`")
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		if (c.arg(0) == "") == (plan == "") {
			return c.wrong("want an event or --plan")
		}
		if plan == "" {
			s, err := c.client.RequeueSlot(ctx, c.arg(0), string(reason))
			return c.slot(&s, err)
		}
		n, err := c.client.RequeueFailedSlots(ctx, plan, string(reason))
		return c.done(orCreate(err), "requeued %d events", n)
	})
}

func slotConfirmCommand() *cobra.Command {
	var worker string
	return online(&cobra.Command{
		Use: "confirm EVENT", Short: "record that you have started an event yourself",
		Long:    `No dispatcher runs the event then. Pass the fence that it prints to complete.`,
		Example: "sluice slots confirm order-17",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&worker, "worker", "", "`name` that tells you from others with the same token: only one can confirm an event")
	}, func(ctx context.Context, c *call) error {
		s, err := c.client.ConfirmSlot(ctx, c.arg(0), worker)
		return c.slot(&s, err)
	})
}

func slotCompleteCommand() *cobra.Command {
	var fence int64
	var failure string
	return online(&cobra.Command{
		Use: "complete EVENT", Short: "record how an event ended that was confirmed or is unknown",
		Example: `sluice slots complete order-17 --fence 1
sluice slots complete order-17 --fence 1 --failure 'no such address'`,
	}, func(f *pflag.FlagSet) {
		f.Int64Var(&fence, "fence", 0, "`number` that confirm printed")
		f.StringVar(&failure, "failure", "", "what went wrong, as `text`")
	}, func(ctx context.Context, c *call) error {
		if fence == 0 {
			return c.wrong("want --fence, the number that confirm printed")
		}
		return c.done(c.client.CompleteSlot(ctx, c.arg(0), fence, failure), "noted")
	})
}

func slotLoadCommand() *cobra.Command {
	from := instant{ahead: true}
	var step period
	var bars, width int
	return online(&cobra.Command{
		Use: "load [PLAN]", Short: "draw how many events are scheduled from now on",
		Example: `sluice slots load
sluice slots load mail --step 1h --bars 24`,
	}, func(f *pflag.FlagSet) {
		f.Var(&from, "from", "start `time`, or 1h for an hour from now (default now)")
		f.Var(&step, "step", "`duration` that a line stands for (default 1m)")
		f.IntVar(&bars, "bars", 30, "`number` of lines")
		f.IntVar(&width, "width", 0, "width in `columns` (default the terminal's)")
	}, func(ctx context.Context, c *call) error {
		if step == 0 {
			step = period(time.Minute)
		}
		h, err := c.client.SlotLoad(ctx, c.plan(0), from.Time, time.Duration(step), bars)
		if err != nil {
			return orCreate(err)
		}
		h.Step = time.Duration(step)
		if width == 0 {
			width = c.columns()
		}
		var b strings.Builder
		return c.printAnswer(h.Write(&b, width), b.String())
	})
}

func slotTable() *table {
	return newTable("EVENT", "STATE", "SCHEDULED", "REQUESTED", ">ATTEMPTS", "WORKER")
}

func slotRow(s *schedule.Slot) []string {
	return []string{s.Event, s.State.String(), fine(s.Scheduled), fine(s.Requested), number(s.Attempts), s.Worker}
}

func slotWindowCommand() *cobra.Command {
	at := instant{ahead: true}
	var most length
	return online(&cobra.Command{
		Use: "window [PLAN]", Short: "list what is scheduled in one window",
		Example: `sluice slots window mail
sluice slots window mail --at 2026-01-31T12:00:00Z`,
	}, func(f *pflag.FlagSet) {
		f.Var(&at, "at", "`time`, or 10m for ten minutes from now (default now)")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]schedule.Slot, string, error) {
			page, err := c.client.SlotWindow(ctx, c.plan(0), at.Time, p)
			return page.Slots, page.Next, orCreate(err)
		})
		return printList(c, err, "slots", all, more, slotTable(), slotRow)
	})
}

func slotSwitchCommand(name, summary, did string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return online(&cobra.Command{
		Use: name + " " + "[PLAN]", Short: summary,
		Example: "sluice slots " + name + " mail",
	}, nil, func(ctx context.Context, c *call) error {
		return c.done(orCreate(do(c.client, ctx, c.plan(0))), "%s %s", did, printable(c.plan(0)))
	})
}

func slotFlushCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "flush", Short: "make every node reload the plans",
		Example: "sluice slots flush",
	}, nil, func(ctx context.Context, c *call) error {
		return c.done(c.client.FlushSlotPlans(ctx), "flushed")
	})
}

func slotReconcileCommand() *cobra.Command {
	r := client.SlotReconciliation{}
	var age period
	var started names
	return online(&cobra.Command{
		Use: "reconcile [PLAN]", Short: "find slots that were never started, and reclaim their room",
		Long: `Without --dry-run you declare that all events except those in --started never
started. Plans that are paused, or that workers take work of, are refused: what waits
there is not leaked. What is reclaimed is kept, and assigning the event again gives it
a new slot.`,
		Example: "sluice slots reconcile mail --overdue --dry-run",
	}, func(f *pflag.FlagSet) {
		f.Var(&age, "age", "only slots assigned at least this `duration` ago (default 10m)")
		f.BoolVar(&r.Overdue, "overdue", false, "only slots whose time has passed")
		f.BoolVar(&r.DryRun, "dry-run", false, "only print what would be reclaimed")
		f.Var(&started, "started", "an `event` that did start; may be repeated")
	}, func(ctx context.Context, c *call) error {
		r.Plan, r.Age, r.Started = c.plan(0), time.Duration(age), started
		report, err := c.client.ReconcileSlots(ctx, r)
		text := fmt.Sprintf("%d looked at, %d had started, %d reclaimed, %d leaked\n", report.Looked, report.Confirmed, report.Reclaimed, len(report.Leaked))
		if len(report.Leaked) > 0 {
			t := slotTable()
			for i := range report.Leaked {
				t.add(slotRow(&report.Leaked[i])...)
			}
			text += t.String()
		}
		return c.printAnswer(orCreate(err), text)
	})
}

func slotAuditCommand() *cobra.Command {
	var q schedule.AuditQuery
	return online(&cobra.Command{
		Use: "audit", Short: "list what happened to an event or a plan, newest first",
		Example: `sluice slots audit --event order-17
sluice slots audit --plan mail`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&q.Event, "event", "", "entries about this `event`")
		f.StringVar(&q.Plan, "plan", "", "entries about this `plan`")
		f.IntVar(&q.Max, "max", 100, "show at most this `number`, up to 1000")
	}, func(ctx context.Context, c *call) error {
		if (q.Event == "") == (q.Plan == "") {
			return c.wrong("want --event or --plan")
		}
		all, err := c.client.SlotAudit(ctx, q)
		return printList(c, err, "entries", all, false, newTable("TIME", "PLAN", "EVENT", "DID", ">ATTEMPT", "WORKER", "DETAIL"), func(e *schedule.Entry) []string {
			attempt := ""
			if e.Attempt > 0 {
				attempt = number(e.Attempt)
			}
			return []string{fine(e.Time), e.Plan, e.Event, string(e.Action), attempt, e.Worker, e.Detail}
		})
	})
}
