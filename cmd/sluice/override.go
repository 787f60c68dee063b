package main

import (
	"context"
	"flag"
	"io"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func overrideCommand() *command {
	return &command{
		name: "override", summary: "another number for one limit of one entity, for a while",
		sub:      []*command{overrideSetCommand(), overrideListCommand(), overrideRemoveCommand()},
		examples: []string{"sluice override set alice rpm 5000/minute --for 2h --reason 'import, ticket 17'"},
	}
}

func overrideSetCommand() *command {
	var resource string
	var length period
	var how settingFlags
	var reason reasonFlag
	until := instant{ahead: true}
	return &command{
		name: "set", args: "ENTITY LIMIT RULE", summary: "set an override; it needs an end and a reason",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&resource, "resource", "", "resource | only on this resource")
			f.Var(&length, "for", "duration | how long: 2h, 7d")
			f.Var(&until, "until", "time | or until when")
			how.define(f)
			reason.define(f)
		},
		examples: []string{"sluice override set alice rpm 5000/minute --for 2h --reason 'import, ticket 17'"},
		run: func(ctx context.Context, c *call) error {
			limit, err := sluice.Parse(c.arg(2))
			if err != nil {
				return c.wrong("%v", err)
			}
			setting, err := how.setting(c, limit)
			if err != nil {
				return err
			}
			if (length == 0) == until.IsZero() {
				return c.wrong("want --for or --until")
			}
			if length != 0 {
				until.Time = time.Now().Add(time.Duration(length))
			}
			o, err := c.client.SetOverride(ctx, catalog.Override{
				Entity: c.arg(0), Limit: c.arg(1), Resource: resource, Setting: setting, Until: until.Time, Reason: string(reason),
			})
			if err != nil {
				return c.trouble(err)
			}
			return c.printAnswer(func(w io.Writer) error {
				return fields{
					{"entity", o.Entity}, {"limit", o.Limit}, {"resource", o.Resource}, {"rule", o.Setting.String()},
					{"until", moment(o.Until)}, {"reason", o.Reason}, {"by", o.By},
				}.writeTo(w)
			})
		},
	}
}

func overrideListCommand() *command {
	var entity string
	var most length
	return &command{
		name: "list", summary: "list overrides",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&entity, "entity", "", "entity | only of this entity")
			most.define(f)
		},
		examples: []string{"sluice override list", "sluice override list --entity alice"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.Override, string, error) {
				page, err := c.client.Overrides(ctx, entity, p)
				return page.Overrides, page.Next, err
			})
			if err != nil {
				return err
			}
			now := time.Now()
			return printList(c, "overrides", all, more, newTable("ENTITY", "LIMIT", "RESOURCE", "RULE", "UNTIL", "STATE", "BY", "REASON"), func(o *catalog.Override) []string {
				state := "active"
				if !o.Until.After(now) {
					state = "lapsed"
				}
				return []string{o.Entity, o.Limit, o.Resource, o.Setting.String(), moment(o.Until), state, o.By, o.Reason}
			})
		},
	}
}

func overrideRemoveCommand() *command {
	var resource string
	var reason reasonFlag
	return &command{
		name: "remove", args: "ENTITY LIMIT", summary: "end an override before its time",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&resource, "resource", "", "resource | the one on this resource")
			reason.define(f)
		},
		examples: []string{"sluice override remove alice rpm"},
		run: func(ctx context.Context, c *call) error {
			if err := reason.client(c).RemoveOverride(ctx, c.arg(0), c.arg(1), resource); err != nil {
				return c.trouble(err)
			}
			return c.done("removed the override of %s of %s", printable(c.arg(1)), printable(c.arg(0)))
		},
	}
}
