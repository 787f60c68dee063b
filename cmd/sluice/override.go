package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func overrideCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "override", Short: "temporarily replace one limit of one entity",
		Example: "sluice override set alice rpm 5000/minute --for 2h --reason 'import, ticket 17'",
	}, overrideSetCommand(), overrideListCommand(), overrideRemoveCommand())
}

func overrideSetCommand() *cobra.Command {
	var resource string
	var length period
	var how settingFlags
	var reason reasonFlag
	until := instant{ahead: true}
	return online(&cobra.Command{
		Use: "set ENTITY LIMIT RULE", Short: "set an override, which needs an end and a reason",
		Example: "sluice override set alice rpm 5000/minute --for 2h --reason 'import, ticket 17'",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&resource, "resource", "", "only on this `resource`")
		f.Var(&length, "for", "`duration` of the override, such as 2h or 7d")
		f.Var(&until, "until", "end `time` of the override")
		how.define(f)
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		limit, err := sluice.Parse(c.arg(2))
		if err != nil {
			return c.wrong("%v", err)
		}
		if (length == 0) == until.IsZero() {
			return c.wrong("want --for or --until")
		}
		if length != 0 {
			until.Time = time.Now().Add(time.Duration(length))
		}
		o, err := c.client.SetOverride(ctx, catalog.Override{
			Entity: c.arg(0), Limit: c.arg(1), Resource: resource, Setting: how.setting(limit), Until: until.Time, Reason: string(reason),
		})
		return c.printAnswer(err, fields{
			{"entity", o.Entity}, {"limit", o.Limit}, {"resource", o.Resource}, {"rule", o.Setting.String()},
			{"until", moment(o.Until)}, {"reason", o.Reason}, {"by", o.By},
		}.String())
	})
}

func overrideListCommand() *cobra.Command {
	var entity string
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list overrides",
		Example: `sluice override list
sluice override list --entity alice`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&entity, "entity", "", "only those of this `entity`")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Override, string, error) {
			page, err := c.client.Overrides(ctx, entity, p)
			return page.Overrides, page.Next, err
		})
		now := time.Now()
		return printList(c, err, "overrides", all, more, newTable("ENTITY", "LIMIT", "RESOURCE", "RULE", "UNTIL", "STATE", "BY", "REASON"), func(o *catalog.Override) []string {
			state := "active"
			if !o.Until.After(now) {
				state = "lapsed"
			}
			return []string{o.Entity, o.Limit, o.Resource, o.Setting.String(), moment(o.Until), state, o.By, o.Reason}
		})
	})
}

func overrideRemoveCommand() *cobra.Command {
	var resource string
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "remove ENTITY LIMIT", Short: "end an override early",
		Example: "sluice override remove alice rpm",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&resource, "resource", "", "the override on this `resource`")
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		return c.done(reason.client(c).RemoveOverride(ctx, c.arg(0), c.arg(1), resource), "removed the override of %s of %s", printable(c.arg(1)), printable(c.arg(0)))
	})
}
