package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/internal/exactjson"
	"github.com/sluice-go/sluice/schedule"
)

func slotPlanCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "plan", Short: "manage plans: how many events fit into a window, and when windows are open",
		Example: "sluice slots plan set mail --max-per-window 100 --window 4s",
	}, slotPlanListCommand(), slotPlanGetCommand(), slotPlanSetCommand(), slotPlanVersionsCommand())
}

func (c *call) slotPlan(p *schedule.Plan, err error) error {
	f := fields{
		{"plan", p.Name}, {"version", number(p.Version)}, {"fits", fmt.Sprintf("%d in %s", p.MaxPerWindow, p.WindowSize)},
		{"headroom", fmt.Sprintf("%d windows", p.Headroom)}, {"paused", yes(p.Paused)},
		{"created", moment(p.Created)}, {"size counts from", moment(p.Starts)},
	}
	if p.Calendar != nil {
		text, err := json.Marshal(p.Calendar)
		if err != nil {
			return err
		}
		f = append(f, [2]string{"calendar", string(text)})
	}
	if p.Target != nil {
		f = append(f, targetFields(p.Target)...)
	}
	return c.printAnswer(orCreate(err), f.String())
}

func planRow(p *schedule.Plan) []string {
	zone := ""
	if p.Calendar != nil {
		if zone = p.Calendar.Zone; zone == "" {
			zone = "UTC"
		}
	}
	return []string{p.Name, number(p.Version), number(p.MaxPerWindow), p.WindowSize.String(), number(p.Headroom), zone, yes(p.Active), yes(p.Paused), moment(p.Created)}
}

func planTable() *table {
	return newTable("PLAN", ">VERSION", ">MAX", "WINDOW", ">HEADROOM", "CALENDAR", "ACTIVE", "PAUSED", "CREATED")
}

func slotPlanListCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list plans",
		Example: "sluice slots plan list",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]schedule.Plan, string, error) {
			page, err := c.client.SlotPlans(ctx, p)
			return page.Plans, page.Next, err
		})
		return printList(c, err, "plans", all, more, planTable(), planRow)
	})
}

func slotPlanGetCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "get [PLAN]", Short: "show a plan",
		Example: "sluice slots plan get mail",
	}, nil, func(ctx context.Context, c *call) error {
		p, err := c.client.SlotPlan(ctx, c.plan(0))
		return c.slotPlan(&p, err)
	})
}

func slotPlanVersionsCommand() *cobra.Command {
	var most int
	return online(&cobra.Command{
		Use: "versions [PLAN]", Short: "list all versions of a plan, newest first",
		Example: "sluice slots plan versions mail",
	}, func(f *pflag.FlagSet) { f.IntVar(&most, "max", 100, "show at most this `number`, up to 1000") }, func(ctx context.Context, c *call) error {
		all, err := c.client.SlotPlanVersions(ctx, c.plan(0), most)
		return printList(c, orCreate(err), "plans", all, false, planTable(), planRow)
	})
}

func slotPlanSetCommand() *cobra.Command {
	var most, headroom int
	var window period
	var calendar string
	var target targetFlags
	var version versionFlag
	return online(&cobra.Command{
		Use: "set [PLAN]", Short: "create a new version of a plan; what the flags leave out is kept",
		Long: `What is scheduled does not move. A new window size applies at once, except to
windows that have events.

With --target the servers do the work: they call a URL for each event. Headers and
secrets are stored sealed, which needs serve --seal-key.`,
		Example: `sluice slots plan set mail --max-per-window 100 --window 4s
sluice slots plan set mail --target https://mail.example.com/send --target-secret @webhook.secret
sluice slots plan set mail --calendar office-hours.json`,
	}, func(f *pflag.FlagSet) {
		f.IntVar(&most, "max-per-window", 0, "`number` of events that fit into a window (default 100)")
		f.Var(&window, "window", "`duration` of a window (default 4s)")
		f.IntVar(&headroom, "headroom", 0, "`number` of windows past the requested one that are searched (default 200)")
		f.StringVar(&calendar, "calendar", "", "JSON `file` with zone, hours, holidays and blackouts; '' for always open")
		target.define(f)
		version.define(f)
	}, func(ctx context.Context, c *call) error {
		p, err := c.client.SlotPlan(ctx, c.plan(0))
		if errors.Is(err, schedule.ErrNotFound) {
			p, err = schedule.Plan{Name: c.plan(0)}, nil
		}
		if err != nil {
			return err
		}
		if c.said("max-per-window") {
			p.MaxPerWindow = most
		}
		if c.said("window") {
			p.WindowSize = time.Duration(window)
		}
		if c.said("headroom") {
			if headroom == 0 {
				return c.wrong("--headroom: must be at least 1")
			}
			p.Headroom = headroom
		}
		if c.said("calendar") {
			if p.Calendar, err = readCalendar(calendar); err != nil {
				return err
			}
		}
		if err := target.apply(c, &p, time.Now()); err != nil {
			return err
		}
		if version != 0 {
			p.Version = int(version)
		}
		p, err = c.client.SetSlotPlan(ctx, p)
		return c.slotPlan(&p, err)
	})
}

func readCalendar(path string) (*schedule.Calendar, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	calendar := &schedule.Calendar{}
	if err = decoder.Decode(calendar); err == nil {
		err = exactjson.Check(text, reflect.TypeFor[schedule.Calendar]())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := calendar.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return calendar, nil
}
