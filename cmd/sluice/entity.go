package main

import (
	"context"
	"flag"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func entityCommand() *command {
	return &command{
		name: "entity", summary: "users, keys' owners, companies: who is limited",
		about: "Limits need\nno entity; an entity adds a name, a parent, a tier and metadata.",
		sub: append([]*command{
			entityCreateCommand(), entityGetCommand(), entityListCommand(), entityUpdateCommand(),
			entityDeleteCommand(), entityEraseCommand(),
		}, limitsOf("entity", "ENTITY", func(c *call, resource string) catalog.Scope {
			return catalog.Scope{Entity: c.arg(0), Resource: resource}
		})...),
		examples: []string{
			"sluice entity create alice --parent acme --cascade --tier pro",
			"sluice entity list --parent acme",
			"sluice entity set-limits alice rpm=1000/minute --resource chat",
		},
	}
}

// entityFlags are what can be said about an entity.
type entityFlags struct {
	name, parent, tier string
	cascade            bool
	meta               pairs
}

func (e *entityFlags) define(f *flag.FlagSet) {
	f.StringVar(&e.name, "name", "", "name | its name for people")
	f.StringVar(&e.parent, "parent", "", "entity | the entity above, such as a team")
	f.BoolVar(&e.cascade, "cascade", false, "take from the parent, too")
	f.StringVar(&e.tier, "tier", "", "tier | its tier")
	f.Var(&e.meta, "meta", "name=value | something to remember as name=value; may be repeated")
}

func entityCreateCommand() *command {
	var e entityFlags
	var reason reasonFlag
	return &command{
		name: "create", args: "ENTITY", summary: "create an entity",
		flags:    func(f *flag.FlagSet) { e.define(f); reason.define(f) },
		examples: []string{"sluice entity create alice --name 'Alice A.' --parent acme --cascade --tier pro --meta country=de"},
		run: func(ctx context.Context, c *call) error {
			made, err := reason.client(c).CreateEntity(ctx, catalog.Entity{
				ID: c.arg(0), Name: e.name, Parent: e.parent, Cascade: e.cascade, Tier: e.tier, Metadata: e.meta,
			})
			return c.entity(&made, err)
		},
	}
}

func (c *call) entity(e *catalog.Entity, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		var meta []string
		for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
			meta = append(meta, name+"="+e.Metadata[name])
		}
		return fields{
			{"entity", e.ID}, {"name", e.Name}, {"parent", e.Parent}, {"cascades", yes(e.Cascade)}, {"tier", e.Tier},
			{"metadata", strings.Join(meta, ", ")}, {"from file", e.Source}, {"version", number(e.Version)},
			{"created", moment(e.Created)}, {"updated", moment(e.Updated)},
		}.writeTo(w)
	})
}

func entityGetCommand() *command {
	return &command{
		name: "get", args: "ENTITY", summary: "show an entity",
		examples: []string{"sluice entity get alice"},
		run: func(ctx context.Context, c *call) error {
			e, err := c.client.Entity(ctx, c.arg(0))
			return c.entity(&e, err)
		},
	}
}

func entityListCommand() *command {
	var parent, tier string
	var most length
	return &command{
		name: "list", summary: "list entities, or the children of a parent",
		flags: func(f *flag.FlagSet) {
			f.StringVar(&parent, "parent", "", "entity | only the children of this entity")
			f.StringVar(&tier, "tier", "", "tier | only those of this tier")
			most.define(f)
		},
		examples: []string{"sluice entity list", "sluice entity list --parent acme", "sluice entity list --tier pro --json"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.Entity, string, error) {
				page, err := c.client.Entities(ctx, client.EntityQuery{Parent: parent, Tier: tier, Page: p})
				return page.Entities, page.Next, err
			})
			if err != nil {
				return err
			}
			return printList(c, "entities", all, more, newTable("ENTITY", "NAME", "PARENT", "CASCADES", "TIER", ">VERSION"),
				func(e *catalog.Entity) []string {
					return []string{e.ID, e.Name, e.Parent, yes(e.Cascade), e.Tier, number(e.Version)}
				})
		},
	}
}

func entityUpdateCommand() *command {
	var e entityFlags
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: "update", args: "ENTITY", summary: "change what the flags say, and leave the rest",
		about: "If somebody else\nchanges the entity in between, it is refused. --meta name= removes a name.",
		flags: func(f *flag.FlagSet) { e.define(f); version.define(f); reason.define(f) },
		examples: []string{
			"sluice entity update alice --tier enterprise --reason 'ticket 17'",
			"sluice entity update alice --parent ''",
		},
		run: func(ctx context.Context, c *call) error {
			now, err := c.client.Entity(ctx, c.arg(0))
			if err != nil {
				return c.trouble(err)
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
		},
	}
}

// childrenFlag says what becomes of children.
type childrenFlag struct{ text string }

func (k *childrenFlag) define(f *flag.FlagSet) {
	f.StringVar(&k.text, "children", "refuse", "how | refuse if it has children, delete them too, or lift them to its parent")
}

func (k *childrenFlag) read(c *call) (catalog.Children, error) {
	switch k.text {
	case "refuse":
		return catalog.RefuseChildren, nil
	case "delete":
		return catalog.DeleteChildren, nil
	case "lift":
		return catalog.LiftChildren, nil
	}
	return 0, c.wrong("--children %q: want refuse, delete or lift", k.text)
}

func entityDeleteCommand() *command {
	var children childrenFlag
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: "delete", args: "ENTITY", summary: "delete an entity with its limits, overrides and keys",
		about:    "Its usage and\naudit events stay; erase removes them too.",
		flags:    func(f *flag.FlagSet) { children.define(f); version.define(f); reason.define(f) },
		examples: []string{"sluice entity delete alice", "sluice entity delete acme --children lift"},
		run: func(ctx context.Context, c *call) error {
			what, err := children.read(c)
			if err != nil {
				return err
			}
			if err := reason.client(c).DeleteEntity(ctx, c.arg(0), int64(version), what); err != nil {
				return c.trouble(err)
			}
			return c.done("deleted %s", printable(c.arg(0)))
		},
	}
}

func entityEraseCommand() *command {
	var children childrenFlag
	var reason reasonFlag
	var sure sureFlag
	return &command{
		name: "erase", args: "ENTITY", summary: "remove everything about an entity, its usage and audit events too",
		about:    "So\ngo its buckets and the responses stored for it. One event stays that says that it\nwas erased.",
		flags:    func(f *flag.FlagSet) { children.define(f); reason.define(f); sure.define(f) },
		examples: []string{"sluice entity erase alice --yes --reason 'asked by mail'"},
		run: func(ctx context.Context, c *call) error {
			what, err := children.read(c)
			if err != nil {
				return err
			}
			if err := sure.check(c, "this cannot be undone"); err != nil {
				return err
			}
			erased, err := reason.client(c).EraseEntity(ctx, c.arg(0), what)
			return c.erased("erased", erased, err)
		},
	}
}

// erased says how much there was of something that is gone.
func (c *call) erased(how string, e client.Erased, err error) error {
	if err != nil {
		return c.trouble(err)
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
	return c.done("%s %s: %s", how, printable(c.arg(0)), strings.Join(parts, ", "))
}

// reasonFlag is why something is changed, for the audit log.
type reasonFlag string

func (r *reasonFlag) define(f *flag.FlagSet) {
	f.StringVar((*string)(r), "reason", "", "text | why, for the audit log")
}

func (r *reasonFlag) client(c *call) *client.Client { return c.client.Because(string(*r)) }

// versionFlag is the only version that may be changed.
type versionFlag int64

func (v *versionFlag) define(f *flag.FlagSet) {
	f.Int64Var((*int64)(v), "if-version", 0, "number | only if this is its version number")
}

// sureFlag confirms what cannot be undone.
type sureFlag bool

func (s *sureFlag) define(f *flag.FlagSet) {
	f.BoolVar((*bool)(s), "yes", false, "do it; without, nothing is done")
}

func (s *sureFlag) check(c *call, why string) error {
	if !*s {
		return c.wrong("%s: say --yes if it is meant", why)
	}
	return nil
}
