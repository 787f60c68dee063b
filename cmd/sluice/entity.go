package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func entityCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "entity", Short: "manage entities: who is limited",
		Long: `An entity adds a name, a parent, a tier and metadata to an id. Limits apply
without one, too.`,
		Example: `sluice entity create alice --parent acme --cascade --tier pro
sluice entity list --parent acme
sluice entity set-limits alice rpm=1000/minute --resource chat`,
	}, append([]*cobra.Command{
		entityCreateCommand(), entityGetCommand(), entityListCommand(), entityUpdateCommand(),
		entityDeleteCommand(), entityEraseCommand(),
	}, limitsOf("entity", "ENTITY", func(c *call, resource string) catalog.Scope {
		return catalog.Scope{Entity: c.arg(0), Resource: resource}
	})...)...)
}

// entityFlags are what can be said about an entity.
type entityFlags struct {
	name, parent, tier string
	cascade            bool
	meta               pairs
}

func (e *entityFlags) define(f *pflag.FlagSet) {
	f.StringVar(&e.name, "name", "", "display `name`")
	f.StringVar(&e.parent, "parent", "", "parent `entity`, such as a team")
	f.BoolVar(&e.cascade, "cascade", false, "also take from the parent")
	f.StringVar(&e.tier, "tier", "", "its `tier`")
	f.Var(&e.meta, "meta", "metadata as `name=value`; may be repeated")
}

func entityCreateCommand() *cobra.Command {
	var e entityFlags
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "create ENTITY", Short: "create an entity",
		Example: "sluice entity create alice --name 'Alice A.' --parent acme --cascade --tier pro --meta country=de",
	}, flags(e.define, reason.define), func(ctx context.Context, c *call) error {
		made, err := reason.client(c).CreateEntity(ctx, catalog.Entity{
			ID: c.arg(0), Name: e.name, Parent: e.parent, Cascade: e.cascade, Tier: e.tier, Metadata: e.meta,
		})
		return c.entity(&made, err)
	})
}

func (c *call) entity(e *catalog.Entity, err error) error {
	var meta []string
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		meta = append(meta, name+"="+e.Metadata[name])
	}
	return c.printAnswer(err, fields{
		{"entity", e.ID}, {"name", e.Name}, {"parent", e.Parent}, {"cascades", yes(e.Cascade)}, {"tier", e.Tier},
		{"metadata", strings.Join(meta, ", ")}, {"from file", e.Source}, {"version", number(e.Version)},
		{"created", moment(e.Created)}, {"updated", moment(e.Updated)},
	}.String())
}

func entityGetCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "get ENTITY", Short: "show an entity",
		Example: "sluice entity get alice",
	}, nil, func(ctx context.Context, c *call) error {
		e, err := c.client.Entity(ctx, c.arg(0))
		return c.entity(&e, err)
	})
}

func entityListCommand() *cobra.Command {
	var parent, tier string
	var most length
	return online(&cobra.Command{
		Use: "list", Short: "list entities, or the children of a parent",
		Example: `sluice entity list
sluice entity list --parent acme
sluice entity list --tier pro --json`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&parent, "parent", "", "only the children of this `entity`")
		f.StringVar(&tier, "tier", "", "only those of this `tier`")
		most.define(f)
	}, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]catalog.Entity, string, error) {
			page, err := c.client.Entities(ctx, client.EntityQuery{Parent: parent, Tier: tier, Page: p})
			return page.Entities, page.Next, err
		})
		return printList(c, err, "entities", all, more, newTable("ENTITY", "NAME", "PARENT", "CASCADES", "TIER", ">VERSION"),
			func(e *catalog.Entity) []string {
				return []string{e.ID, e.Name, e.Parent, yes(e.Cascade), e.Tier, number(e.Version)}
			})
	})
}

func entityUpdateCommand() *cobra.Command {
	var e entityFlags
	var version versionFlag
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "update ENTITY", Short: "change what the flags name and leave the rest",
		Long: `The update is refused if somebody else changes the entity at the same time.
An empty value, as in --meta country=, removes a name.`,
		Example: `sluice entity update alice --tier enterprise --reason 'ticket 17'
sluice entity update alice --parent ''`,
	}, flags(e.define, version.define, reason.define), func(ctx context.Context, c *call) error {
		now, err := c.client.Entity(ctx, c.arg(0))
		if err != nil {
			return err
		}
		for flag, change := range map[string]func(){
			"name":    func() { now.Name = e.name },
			"parent":  func() { now.Parent = e.parent },
			"cascade": func() { now.Cascade = e.cascade },
			"tier":    func() { now.Tier = e.tier },
		} {
			if c.said(flag) {
				change()
			}
		}
		for name, value := range e.meta {
			if now.Metadata == nil {
				now.Metadata = map[string]string{}
			}
			if now.Metadata[name] = value; value == "" {
				delete(now.Metadata, name)
			}
		}
		if version != 0 {
			now.Version = int64(version)
		}
		made, err := reason.client(c).PutEntity(ctx, now)
		return c.entity(&made, err)
	})
}

// childrenFlag says what becomes of children.
type childrenFlag struct{ text string }

func (k *childrenFlag) define(f *pflag.FlagSet) {
	choose(f, &k.text, "children", "refuse", "if it has children, refuse, delete them too, or lift them to its parent", "refuse", "delete", "lift")
}

func (k *childrenFlag) read() catalog.Children {
	return map[string]catalog.Children{"refuse": catalog.RefuseChildren, "delete": catalog.DeleteChildren, "lift": catalog.LiftChildren}[k.text]
}

func entityDeleteCommand() *cobra.Command {
	var children childrenFlag
	var version versionFlag
	var reason reasonFlag
	return online(&cobra.Command{
		Use: "delete ENTITY", Short: "delete an entity with its limits, overrides and keys",
		Long: `Usage and audit events are kept; erase removes them, too.`,
		Example: `sluice entity delete alice
sluice entity delete acme --children lift`,
	}, flags(children.define, version.define, reason.define), func(ctx context.Context, c *call) error {
		return c.done(reason.client(c).DeleteEntity(ctx, c.arg(0), int64(version), children.read()), "deleted %s", printable(c.arg(0)))
	})
}

func entityEraseCommand() *cobra.Command {
	var children childrenFlag
	var reason reasonFlag
	var sure sureFlag
	return online(&cobra.Command{
		Use: "erase ENTITY", Short: "remove everything about an entity, including usage and audit events",
		Long: `Buckets, leases, bans and stored responses are removed as well. One audit event remains,
which records the erasure.`,
		Example: "sluice entity erase alice --yes --reason 'asked by mail'",
	}, flags(children.define, reason.define, sure.define), func(ctx context.Context, c *call) error {
		if err := sure.check(c, "this cannot be undone"); err != nil {
			return err
		}
		erased, err := reason.client(c).EraseEntity(ctx, c.arg(0), children.read())
		return c.erased("erased", erased, err)
	})
}

// erased says how much there was of something that is gone.
func (c *call) erased(how string, e client.Erased, err error) error {
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(e)
	}
	var parts []string
	for _, part := range []struct {
		n         int
		one, more string
	}{
		{e.Records, "record", "records"}, {e.Usage, "row of usage", "rows of usage"}, {e.Events, "audit event", "audit events"},
		{e.Buckets, "bucket", "buckets"}, {e.Replays, "stored response", "stored responses"}, {e.Slots, "slot", "slots"},
	} {
		switch part.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.one)
		default:
			parts = append(parts, number(part.n)+" "+part.more)
		}
	}
	if len(parts) == 0 {
		parts = []string{"there was nothing"}
	}
	return c.done(nil, "%s %s: %s", how, printable(c.arg(0)), strings.Join(parts, ", "))
}

// reasonFlag is why something is changed, for the audit log.
type reasonFlag string

func (r *reasonFlag) define(f *pflag.FlagSet) {
	f.StringVar((*string)(r), "reason", "", "reason for the audit log, as `text`")
}

func (r *reasonFlag) client(c *call) *client.Client { return c.client.Because(string(*r)) }

// versionFlag is the only version that may be changed.
type versionFlag int64

func (v *versionFlag) define(f *pflag.FlagSet) {
	f.Int64Var((*int64)(v), "if-version", 0, "only if its version is this `number`")
}

// sureFlag confirms what cannot be undone.
type sureFlag bool

func (s *sureFlag) define(f *pflag.FlagSet) {
	f.BoolVar((*bool)(s), "yes", false, "confirm; without it nothing is done")
}

func (s *sureFlag) check(c *call, why string) error {
	if !*s {
		return c.wrong("%s; confirm with --yes", why)
	}
	return nil
}
