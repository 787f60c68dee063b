package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// limitsOf are the commands for the limits of one level that has resources:
// of entities and of tiers.
func limitsOf(level, argument string, scope func(*call, string) catalog.Scope) []*command {
	var resource string
	define := func(f *flag.FlagSet) {
		f.StringVar(&resource, "resource", "", "resource | those on this resource, not the general ones")
	}
	at := func(c *call) catalog.Scope { return scope(c, resource) }
	example := map[string]string{"entity": "alice", "tier": "pro"}[level]
	return []*command{
		showLimits("limits", argument, "show the limits stored for one "+level, define, at,
			"sluice "+level+" limits "+example, "sluice "+level+" limits "+example+" --resource chat"),
		setLimits("set-limits", argument+" NAME=RULE...", "store all limits of one "+level+", in place of what was there", 1, define, at,
			"sluice "+level+" set-limits "+example+" rpm=100/minute 'tpm=50k/minute burst 80k' --resource chat"),
		removeLimits("remove-limits", argument, "remove the limits of one "+level+"; the next level's apply then", define, at,
			"sluice "+level+" remove-limits "+example+" --resource chat"),
	}
}

func showLimits(name, args, summary string, define func(*flag.FlagSet), at func(*call) catalog.Scope, examples ...string) *command {
	return &command{
		name: name, args: args, summary: summary, flags: define, examples: examples,
		run: func(ctx context.Context, c *call) error {
			l, err := c.client.Limits(ctx, at(c))
			return c.limits(&l, err)
		},
	}
}

// settingFlags are how limits are applied.
type settingFlags struct {
	onUnavailable    string
	critical, shadow bool
}

func (s *settingFlags) define(f *flag.FlagSet) {
	f.StringVar(&s.onUnavailable, "on-unavailable", "degrade", "how | while the store is away: degrade, deny or allow")
	f.BoolVar(&s.critical, "critical", false, "always ask the store, never hold ahead of need")
	f.BoolVar(&s.shadow, "shadow", false, "decide and count, but never refuse")
}

func (s *settingFlags) setting(c *call, l sluice.Limit) (catalog.Setting, error) {
	when, err := catalog.ParseOnUnavailable(s.onUnavailable)
	if err != nil {
		return catalog.Setting{}, c.wrong("--on-unavailable %q: want degrade, deny or allow", s.onUnavailable)
	}
	return catalog.Setting{Limit: l, OnUnavailable: when, Critical: s.critical, Shadow: s.shadow}, nil
}

// setLimits stores limits; those after the first skip arguments are NAME=RULE.
func setLimits(name, args, summary string, skip int, define func(*flag.FlagSet), at func(*call) catalog.Scope, examples ...string) *command {
	var how settingFlags
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: name, args: args, summary: summary, examples: examples,
		about: `Rules are
written as 100/minute, 10/s burst 20, 100/minute sliding, 1000/day Europe/Madrid
or 5 concurrent. The flags apply to all of them.`,
		flags: func(f *flag.FlagSet) {
			if define != nil {
				define(f)
			}
			how.define(f)
			version.define(f)
			reason.define(f)
		},
		run: func(ctx context.Context, c *call) error {
			all := catalog.Limits{}
			for _, arg := range c.args[skip:] {
				var one rules
				if err := one.Set(arg); err != nil {
					return c.wrong("%q: %v", arg, err)
				}
				for name, limit := range one {
					setting, err := how.setting(c, limit)
					if err != nil {
						return err
					}
					all[name] = setting
				}
			}
			l, err := reason.client(c).SetLimits(ctx, at(c), all, int64(version))
			return c.limits(&l, err)
		},
	}
}

func removeLimits(name, args, summary string, define func(*flag.FlagSet), at func(*call) catalog.Scope, examples ...string) *command {
	var version versionFlag
	var reason reasonFlag
	return &command{
		name: name, args: args, summary: summary, examples: examples,
		flags: func(f *flag.FlagSet) {
			if define != nil {
				define(f)
			}
			version.define(f)
			reason.define(f)
		},
		run: func(ctx context.Context, c *call) error {
			scope := at(c)
			if err := reason.client(c).RemoveLimits(ctx, scope, int64(version)); err != nil {
				return c.trouble(err)
			}
			return c.done("removed the limits of %s", printable(scope.String()))
		},
	}
}

// limits prints what is stored at one place.
func (c *call) limits(l *catalog.StoredLimits, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "limits of %s, version %d\n", printable(l.Scope.String()), l.Version); err != nil {
			return err
		}
		t := newTable("LIMIT", "RULE", "WHEN AWAY", "CRITICAL", "SHADOW")
		for _, name := range l.Limits.Names() {
			s := l.Limits[name]
			t.add(name, s.Limit.String(), s.OnUnavailable.String(), yes(s.Critical), yes(s.Shadow))
		}
		return t.writeTo(w)
	})
}

func systemCommand() *command {
	at := func(*call) catalog.Scope { return catalog.Scope{} }
	return &command{
		name: "system", summary: "limits that apply where nothing more specific is stored",
		sub: []*command{
			showLimits("get", "", "show the limits of the system", nil, at, "sluice system get"),
			setLimits("set", "NAME=RULE...", "store all limits of the system, in place of what was there", 0, nil, at,
				"sluice system set rpm=60/minute tpm=10k/minute"),
			removeLimits("remove", "", "remove the limits of the system", nil, at, "sluice system remove"),
		},
		examples: []string{"sluice system set rpm=60/minute tpm=10k/minute", "sluice system get"},
	}
}

func resourceCommand() *command {
	at := func(c *call) catalog.Scope { return catalog.Scope{Resource: c.arg(0)} }
	return &command{
		name: "resource", summary: "what is used: its limits, buckets, entities and usage",
		sub: []*command{
			resourceListCommand(),
			showLimits("get", "RESOURCE", "show the limits stored for a resource", nil, at, "sluice resource get chat"),
			setLimits("set", "RESOURCE NAME=RULE...", "store all limits of a resource, in place of what was there", 1, nil, at,
				"sluice resource set chat rpm=20/minute tpm=40k/minute"),
			removeLimits("remove", "RESOURCE", "remove the limits of a resource", nil, at, "sluice resource remove chat"),
			resourceBucketsCommand(), resourceEntitiesCommand(), resourceUsageCommand(),
		},
		examples: []string{"sluice resource set chat rpm=20/minute", "sluice resource buckets chat"},
	}
}

// listLimits is a command that lists stored limits.
func listLimits(name, args, summary string, define func(*flag.FlagSet), query func(*call) client.LimitsQuery, examples ...string) *command {
	var most length
	return &command{
		name: name, args: args, summary: summary, examples: examples,
		flags: func(f *flag.FlagSet) {
			if define != nil {
				define(f)
			}
			most.define(f)
		},
		run: func(ctx context.Context, c *call) error {
			q := query(c)
			all, more, err := collect(c, most, func(p client.Page) ([]catalog.StoredLimits, string, error) {
				q.Page = p
				page, err := c.client.ListLimits(ctx, q)
				return page.Limits, page.Next, err
			})
			if err != nil {
				return err
			}
			if len(all) == 0 && !c.json {
				return c.say("no limits at level " + cmp.Or(q.Level, "entity"))
			}
			return printList(c, "limits", all, more, newTable("OF", "LIMITS", "FROM FILE", ">VERSION"), func(l *catalog.StoredLimits) []string {
				var rules []string
				for _, name := range l.Limits.Names() {
					rules = append(rules, name+" "+l.Limits[name].String())
				}
				return []string{l.Scope.String(), strings.Join(rules, ", "), l.Source, number(l.Version)}
			})
		},
	}
}

func resourceListCommand() *command {
	return listLimits("list", "", "list resources that have limits of their own", nil,
		func(*call) client.LimitsQuery { return client.LimitsQuery{Level: "resource"} }, "sluice resource list")
}

func resourceEntitiesCommand() *command {
	return listLimits("entities", "RESOURCE", "list entities that have limits of their own on a resource", nil,
		func(c *call) client.LimitsQuery { return client.LimitsQuery{Level: "entity", Resource: c.arg(0)} }, "sluice resource entities chat")
}

func limitsListCommand() *command {
	var q client.LimitsQuery
	return listLimits("list", "", "list what is stored at a level: all entities with custom limits, say", func(f *flag.FlagSet) {
		f.StringVar(&q.Level, "level", "entity", "level | the level: entity, tier, resource or system")
		f.StringVar(&q.Entity, "entity", "", "entity | only of this entity")
		f.StringVar(&q.Tier, "tier", "", "tier | only of this tier")
		f.StringVar(&q.Resource, "resource", "", "resource | only on this resource")
	}, func(*call) client.LimitsQuery { return q }, "sluice limits list", "sluice limits list --level tier")
}

func resourceBucketsCommand() *command {
	var most length
	return &command{
		name: "buckets", args: "RESOURCE", summary: "list the buckets of a resource that are in use",
		flags: most.define, examples: []string{"sluice resource buckets chat"},
		run: func(ctx context.Context, c *call) error {
			all, more, err := collect(c, most, func(p client.Page) ([]client.Bucket, string, error) {
				page, err := c.client.Buckets(ctx, client.BucketQuery{Resource: c.arg(0), Page: p})
				return page.Buckets, page.Next, err
			})
			if err != nil {
				return err
			}
			slices.SortFunc(all, func(a, b client.Bucket) int { return byName(&a, &b) })
			return printList(c, "buckets", all, more, newTable("ENTITY", "LIMIT", "RULE", ">LEFT", ">HELD", ">CONSUMED", ">USED", "ALARM", "FULL IN", ">WAITING", ">TAKES", "LAST"),
				func(b *client.Bucket) []string {
					_, takes, last := totals(b.Total)
					return []string{
						b.Entity, b.Limit, b.Rule.String(), b.Remaining.String(), b.Held.String(), b.Consumed.String(),
						percent(b.Utilization), string(b.Alarm), span(b.ResetAfter), inLine(&b.Activity), takes, last,
					}
				})
		},
	}
}
