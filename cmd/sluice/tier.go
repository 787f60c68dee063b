package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func tierCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "tier", Short: "manage tiers such as free and pro, and their limits",
		Example: `sluice tier set pro --description 'ten times free'
sluice tier set-limits pro rpm=1000/minute`,
	}, append([]*cobra.Command{
		tierListCommand(), tierGetCommand(), tierSetCommand(), tierDeleteCommand(),
	}, limitsOf("tier", "TIER", func(c *call, resource string) catalog.Scope {
		return catalog.Scope{Tier: c.arg(0), Resource: resource}
	})...)...)
}

func (c *call) tier(t *catalog.Tier, err error) error {
	return c.printAnswer(err, fields{
		{"tier", t.Name}, {"description", t.Description}, {"from file", t.Source},
		{"version", number(t.Version)}, {"updated", moment(t.Updated)},
	}.String())
}

func tierListCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list tiers",
		Example: "sluice tier list",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Tier, string, error) {
			page, err := c.client.Tiers(ctx, p)
			return page.Tiers, page.Next, err
		})
		return printList(c, err, "tiers", all, more, newTable("TIER", "DESCRIPTION", "FROM FILE", ">VERSION"), func(t *catalog.Tier) []string {
			return []string{t.Name, t.Description, t.Source, number(t.Version)}
		})
	})
}

func tierGetCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "get TIER", Short: "show a tier",
		Example: "sluice tier get pro",
	}, nil, func(ctx context.Context, c *call) error {
		t, err := c.client.Tier(ctx, c.arg(0))
		return c.tier(&t, err)
	})
}

func tierSetCommand() *cobra.Command {
	var description string
	var version versionFlag
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "set TIER", Short: "create a tier, or change its description",
		Example: "sluice tier set pro --description 'ten times free'",
	}, func(f *pflag.FlagSet) {
		f.StringVar(&description, "description", "", "description, as `text`")
		version.define(f)
		reason.define(f)
	}, func(ctx context.Context, c *call) error {
		t, err := reason.client(c).PutTier(ctx, catalog.Tier{Name: c.arg(0), Description: description, Version: int64(version)})
		return c.tier(&t, err)
	})
}

func tierDeleteCommand() *cobra.Command {
	var version versionFlag
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "delete TIER", Short: "delete an unused tier and its limits",
		Example: "sluice tier delete pro",
	}, flags(version.define, reason.define), func(ctx context.Context, c *call) error {
		return c.done(reason.client(c).DeleteTier(ctx, c.arg(0), int64(version)), "deleted tier %s", printable(c.arg(0)))
	})
}
