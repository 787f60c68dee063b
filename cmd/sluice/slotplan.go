package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/schedule"
)

func slotPlanCommand() *command {
	return &command{
		name: "plan", summary: "how many events fit into a window, and when windows are open",
		sub:      []*command{slotPlanListCommand(), slotPlanGetCommand(), slotPlanSetCommand(), slotPlanVersionsCommand()},
		examples: []string{"sluice slots plan set mail --max-per-window 100 --window 4s"},
	}
}

func (c *call) slotPlan(p *schedule.Plan, err error) error {
	if err != nil {
		return c.trouble(orCreate(err))
	}
	return c.printAnswer(func(w io.Writer) error {
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
		return f.writeTo(w)
	})
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

func slotPlanListCommand() *command {
	var most length
	return &command{
		name: "list", summary: "list plans", flags: most.define, examples: []string{"sluice slots plan list"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]schedule.Plan, string, error) {
				page, err := c.client.SlotPlans(ctx, p)
				return page.Plans, page.Next, err
			})
			if err != nil {
				return err
			}
			return printList(c, "plans", all, more, planTable(), planRow)
		},
	}
}

func slotPlanGetCommand() *command {
	return &command{
		name: "get", args: "[PLAN]", summary: "show a plan", examples: []string{"sluice slots plan get mail"},
		run: func(ctx context.Context, c *call) error {
			p, err := c.client.SlotPlan(ctx, c.plan(0))
			return c.slotPlan(&p, err)
		},
	}
}

func slotPlanVersionsCommand() *command {
	var most int
	return &command{
		name: "versions", args: "[PLAN]", summary: "list all versions of a plan, the newest first",
		flags:    func(f *flag.FlagSet) { f.IntVar(&most, "max", 100, "number | show at most this many, up to 1000") },
		examples: []string{"sluice slots plan versions mail"},
		run: func(ctx context.Context, c *call) error {
			all, err := c.client.SlotPlanVersions(ctx, c.plan(0), most)
			if err != nil {
				return c.trouble(orCreate(err))
			}
			return printList(c, "plans", all, false, planTable(), planRow)
		},
	}
}

func slotPlanSetCommand() *command {
	var most, headroom int
	var window period
	var calendar string
	var version versionFlag
	return &command{
		name: "set", args: "[PLAN]", summary: "make a new version of a plan; what the flags do not say stays",
		about: `Nothing
that is scheduled moves. A new window size starts after everything that is.`,
		flags: func(f *flag.FlagSet) {
			f.IntVar(&most, "max-per-window", 0, "number | how many events fit into a window (default 100)")
			f.Var(&window, "window", "duration | how long a window is (default 4s)")
			f.IntVar(&headroom, "headroom", 0, "number | how many windows past the last used one are searched (default 200)")
			f.StringVar(&calendar, "calendar", "", "file | a JSON file with zone, hours, holidays and blackouts; '' for always open")
			version.define(f)
		},
		examples: []string{
			"sluice slots plan set mail --max-per-window 100 --window 4s",
			"sluice slots plan set mail --calendar office-hours.json",
		},
		run: func(ctx context.Context, c *call) error {
			p, err := c.client.SlotPlan(ctx, c.plan(0))
			if errors.Is(err, schedule.ErrNotFound) {
				p, err = schedule.Plan{Name: c.plan(0)}, nil
			}
			if err != nil {
				return c.trouble(err)
			}
			if c.said("max-per-window") {
				p.MaxPerWindow = most
			}
			if c.said("window") {
				p.WindowSize = time.Duration(window)
			}
			if c.said("headroom") {
				p.Headroom = headroom
			}
			if c.said("calendar") {
				if p.Calendar, err = readCalendar(calendar); err != nil {
					return err
				}
			}
			if version != 0 {
				p.Version = int(version)
			}
			p, err = c.client.SetSlotPlan(ctx, p)
			return c.slotPlan(&p, err)
		},
	}
}

const maxCalendar = 1 << 20

func readCalendar(path string) (*schedule.Calendar, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoder := json.NewDecoder(io.LimitReader(f, maxCalendar))
	decoder.DisallowUnknownFields()
	calendar := &schedule.Calendar{}
	if err := decoder.Decode(calendar); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := calendar.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return calendar, nil
}
