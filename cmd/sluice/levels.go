package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// limitsOf are the commands for the limits of one level that has resources:
// of entities and of tiers.
func limitsOf(level, argument string, scope func(*call, string) catalog.Scope) []*cobra.Command {
	var resource string
	define := func(f *pflag.FlagSet) {
		f.StringVar(&resource, "resource", "", "the limits on this `resource`, not the general ones")
	}
	at := func(c *call) catalog.Scope { return scope(c, resource) }
	cmd := func(use, summary, example string) *cobra.Command {
		name, _, _ := strings.Cut(use, " ")
		who := map[string]string{"entity": "alice", "tier": "pro"}[level]
		return &cobra.Command{Use: use, Short: summary, Example: fmt.Sprintf("sluice %s %s %s %s", level, name, who, example)}
	}
	return []*cobra.Command{
		showLimits(cmd("limits "+argument, "show the limits stored for one "+level, "--resource chat"), define, at),
		setLimits(cmd("set-limits "+argument+" NAME=RULE...", "store all limits of one "+level+" in place of the present ones",
			"rpm=100/minute 'tpm=50k/minute burst 80k' --resource chat"), 1, define, at),
		removeLimits(cmd("remove-limits "+argument, "remove the limits of one "+level+", so that those of the next level apply", "--resource chat"), define, at),
	}
}

func showLimits(cmd *cobra.Command, define func(*pflag.FlagSet), at func(*call) catalog.Scope) *cobra.Command {
	return online(cmd, define, func(ctx context.Context, c *call) error {
		l, err := c.client.Limits(ctx, at(c))
		return c.limits(&l, err)
	})
}

// settingFlags are how limits are applied.
type settingFlags struct {
	onUnavailable    string
	critical, shadow bool
	announce         bool
}

func (s *settingFlags) define(f *pflag.FlagSet) {
	choose(f, &s.onUnavailable, "on-unavailable", "degrade", "what to do while the store is unavailable", "degrade", "deny", "allow")
	f.BoolVar(&s.critical, "critical", false, "always ask the store; hold no tokens ahead of need")
	f.BoolVar(&s.shadow, "shadow", false, "decide and count, but never refuse")
	f.BoolVar(&s.announce, "announce", true, "tell callers about it; false tells them when to come back, and neither its name nor its numbers")
}

func (s *settingFlags) setting(l sluice.Limit) catalog.Setting {
	when := map[string]sluice.OnUnavailable{"degrade": sluice.Degrade, "deny": sluice.Deny, "allow": sluice.Allow}[s.onUnavailable]
	return catalog.Setting{Limit: l, OnUnavailable: when, Critical: s.critical, Shadow: s.shadow, Unannounced: !s.announce}
}

// setLimits stores limits; those after the first skip arguments are NAME=RULE.
func setLimits(cmd *cobra.Command, skip int, define func(*pflag.FlagSet), at func(*call) catalog.Scope) *cobra.Command {
	var how settingFlags
	var version versionFlag
	var reason reasonFlag
	cmd.Long = `Rules are written as 100/minute, 10/s burst 20, 100/minute sliding, 1000/day
Europe/Madrid or 5 concurrent. The flags apply to all of them.`
	return online(cmd, flags(define, how.define, version.define, reason.define), func(ctx context.Context, c *call) error {
		all := catalog.Limits{}
		for _, arg := range c.args[skip:] {
			var one rules
			if err := one.Set(arg); err != nil {
				return c.wrong("%q: %v", arg, err)
			}
			for name, limit := range one {
				all[name] = how.setting(limit)
			}
		}
		l, err := reason.client(c).SetLimits(ctx, at(c), all, int64(version))
		return c.limits(&l, err)
	})
}

func removeLimits(cmd *cobra.Command, define func(*pflag.FlagSet), at func(*call) catalog.Scope) *cobra.Command {
	var version versionFlag
	var reason reasonFlag
	return online(cmd, flags(define, version.define, reason.define), func(ctx context.Context, c *call) error {
		scope := at(c)
		return c.done(reason.client(c).RemoveLimits(ctx, scope, int64(version)), "removed the limits of %s", printable(scope.String()))
	})
}

// limits prints what is stored at one place.
func (c *call) limits(l *catalog.StoredLimits, err error) error {
	t := newTable("LIMIT", "RULE", "WHEN AWAY", "CRITICAL", "SHADOW", "UNANNOUNCED")
	for _, name := range l.Limits.Names() {
		s := l.Limits[name]
		t.add(name, s.Limit.String(), s.OnUnavailable.String(), yes(s.Critical), yes(s.Shadow), yes(s.Unannounced))
	}
	return c.printAnswer(err, fmt.Sprintf("limits of %s, version %d\n%s", printable(l.Scope.String()), l.Version, t))
}

func systemCommand() *cobra.Command {
	at := func(*call) catalog.Scope { return catalog.Scope{} }
	return branch(&cobra.Command{
		Use: "system", Short: "manage the limits that apply where nothing more specific is stored",
		Example: `sluice system set rpm=60/minute tpm=10k/minute
sluice system get`,
	},
		showLimits(&cobra.Command{Use: "get", Short: "show the limits of the system", Example: "sluice system get"}, nil, at),
		setLimits(&cobra.Command{
			Use: "set NAME=RULE...", Short: "store all limits of the system in place of the present ones",
			Example: "sluice system set rpm=60/minute tpm=10k/minute",
		}, 0, nil, at),
		removeLimits(&cobra.Command{Use: "remove", Short: "remove the limits of the system", Example: "sluice system remove"}, nil, at))
}

func resourceCommand() *cobra.Command {
	at := func(c *call) catalog.Scope { return catalog.Scope{Resource: c.arg(0)} }
	return branch(&cobra.Command{
		Use: "resource", Short: "manage the limits of a resource, and list its buckets, entities and usage",
		Example: `sluice resource set chat rpm=20/minute
sluice resource buckets chat`,
	},
		listLimits(&cobra.Command{Use: "list", Short: "list resources that have their own limits", Example: "sluice resource list"}, nil,
			func(*call) client.LimitsQuery { return client.LimitsQuery{Level: "resource"} }),
		showLimits(&cobra.Command{Use: "get RESOURCE", Short: "show the limits stored for a resource", Example: "sluice resource get chat"}, nil, at),
		setLimits(&cobra.Command{
			Use: "set RESOURCE NAME=RULE...", Short: "store all limits of a resource in place of the present ones",
			Example: "sluice resource set chat rpm=20/minute tpm=40k/minute",
		}, 1, nil, at),
		removeLimits(&cobra.Command{Use: "remove RESOURCE", Short: "remove the limits of a resource", Example: "sluice resource remove chat"}, nil, at),
		listLimits(&cobra.Command{
			Use: "entities RESOURCE", Short: "list entities that have their own limits on a resource", Example: "sluice resource entities chat",
		}, nil, func(c *call) client.LimitsQuery { return client.LimitsQuery{Level: "entity", Resource: c.arg(0)} }),
		resourceBucketsCommand(), resourceUsageCommand())
}

// listLimits is a command that lists stored limits.
func listLimits(cmd *cobra.Command, define func(*pflag.FlagSet), query func(*call) client.LimitsQuery) *cobra.Command {
	var most length
	return online(cmd, flags(define, most.define), func(ctx context.Context, c *call) error {
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
		return printList(c, nil, "limits", all, more, newTable("OF", "LIMITS", "FROM FILE", ">VERSION"), func(l *catalog.StoredLimits) []string {
			var rules []string
			for _, name := range l.Limits.Names() {
				rules = append(rules, name+" "+l.Limits[name].String())
			}
			return []string{l.Scope.String(), strings.Join(rules, ", "), l.Source, number(l.Version)}
		})
	})
}

func limitsListCommand() *cobra.Command {
	var q client.LimitsQuery
	return listLimits(&cobra.Command{
		Use: "list", Short: "list the limits stored at a level, such as those of all entities",
		Example: "sluice limits list\nsluice limits list --level tier",
	}, func(f *pflag.FlagSet) {
		choose(f, &q.Level, "level", "entity", "the level", "entity", "tier", "resource", "system")
		f.StringVar(&q.Entity, "entity", "", "only those of this `entity`")
		f.StringVar(&q.Tier, "tier", "", "only those of this `tier`")
		f.StringVar(&q.Resource, "resource", "", "only on this `resource`")
	}, func(*call) client.LimitsQuery { return q })
}

func resourceBucketsCommand() *cobra.Command {
	var most length
	return online(&cobra.Command{
		Use: "buckets RESOURCE", Short: "list the buckets of a resource that are in use",
		Example: "sluice resource buckets chat",
	}, most.define, func(ctx context.Context, c *call) error {
		all, more, err := collect(c, most, func(p client.Page) ([]client.Bucket, string, error) {
			page, err := c.client.Buckets(ctx, client.BucketQuery{Resource: c.arg(0), Page: p})
			return page.Buckets, page.Next, err
		})
		slices.SortFunc(all, func(a, b client.Bucket) int { return byName(&a, &b) })
		return printList(c, err, "buckets", all, more, newTable("ENTITY", "LIMIT", "RULE", ">LEFT", ">HELD", ">CONSUMED", ">USED", "ALARM", "FULL IN", ">WAITING", ">TAKES", "LAST"),
			func(b *client.Bucket) []string {
				_, takes, last := totals(b.Total)
				return []string{
					b.Entity, b.Limit, b.RuleText(), b.Remaining.String(), b.Held.String(), b.Consumed.String(),
					percent(b.Utilization), string(b.Alarm), span(b.ResetAfter), inLine(&b.Activity), takes, last,
				}
			})
	})
}
