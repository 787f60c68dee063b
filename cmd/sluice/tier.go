package main

import (
	"context"
	"flag"
	"io"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func tierCommand() *command {
	return &command{
		name: "tier", summary: "plans such as free and pro, and their limits",
		sub: append([]*command{
			tierListCommand(), tierGetCommand(), tierSetCommand(), tierDeleteCommand(),
		}, limitsOf("tier", "TIER", func(c *call, resource string) catalog.Scope {
			return catalog.Scope{Tier: c.arg(0), Resource: resource}
		})...),
		examples: []string{
			"sluice tier set pro --description 'ten times free'",
			"sluice tier set-limits pro rpm=1000/minute",
		},
	}
}

func (c *call) tier(t *catalog.Tier, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		return fields{
			{"tier", t.Name}, {"description", t.Description}, {"from file", t.Source},
			{"version", number(t.Version)}, {"updated", moment(t.Updated)},
		}.writeTo(w)
	})
}

func tierListCommand() *command {
	var most length
	return &command{
		name: "list", summary: "list tiers", flags: most.define, examples: []string{"sluice tier list"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.Tier, string, error) {
				page, err := c.client.Tiers(ctx, p)
				return page.Tiers, page.Next, err
			})
			if err != nil {
				return err
			}
			return printList(c, "tiers", all, more, newTable("TIER", "DESCRIPTION", "FROM FILE", ">VERSION"), func(t *catalog.Tier) []string {
				return []string{t.Name, t.Description, t.Source, number(t.Version)}
			})
		},
	}
}

func tierGetCommand() *command {
	return &command{
		name: "get", args: "TIER", summary: "show a tier", examples: []string{"sluice tier get pro"},
		run: func(ctx context.Context, c *call) error {
			t, err := c.client.Tier(ctx, c.arg(0))
			return c.tier(&t, err)
		},
	}
}

func tierSetCommand() *command {
	var description string
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: "set", args: "TIER", summary: "create a tier, or change its description",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&description, "description", "", "text | what it is, for people")
			version.define(f)
			reason.define(f)
		},
		examples: []string{"sluice tier set pro --description 'ten times free'"},
		run: func(ctx context.Context, c *call) error {
			t, err := reason.client(c).PutTier(ctx, catalog.Tier{Name: c.arg(0), Description: description, Version: int64(version)})
			return c.tier(&t, err)
		},
	}
}

func tierDeleteCommand() *command {
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: "delete", args: "TIER", summary: "delete a tier with its limits, if nobody is in it",
		flags:    func(f *flag.FlagSet) { version.define(f); reason.define(f) },
		examples: []string{"sluice tier delete pro"},
		run: func(ctx context.Context, c *call) error {
			if err := reason.client(c).DeleteTier(ctx, c.arg(0), int64(version)); err != nil {
				return c.trouble(err)
			}
			return c.done("deleted tier %s", printable(c.arg(0)))
		},
	}
}
