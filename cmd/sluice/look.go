package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/failover"
)

// tierFlag defines --tier for commands about an entity.
func tierFlag(f *pflag.FlagSet, tier *string) {
	f.StringVar(tier, "tier", "", "the entity's `tier` if none is stored")
}

func resetCommand() *cobra.Command {
	var tier string
	return online(&cobra.Command{
		Use: "reset ENTITY [RESOURCE]", Short: "reset the buckets of an entity",
		Long:    `The buckets of its parents are left alone.`,
		Example: "sluice reset alice api",
	}, func(f *pflag.FlagSet) { tierFlag(f, &tier) }, func(ctx context.Context, c *call) error {
		return c.done(c.client.Reset(ctx, c.subject(tier)), "reset %s", nameOf(c.arg(0), c.arg(1)))
	})
}

// subject is whom and what the arguments name.
func (c *call) subject(tier string) client.Subject {
	return client.Subject{Entity: c.arg(0), Resource: c.arg(1), Tier: tier}
}

// nameOf is who and what, for people.
func nameOf(entity, resource string) string {
	if resource == "" {
		return printable(entity)
	}
	return printable(entity + " on " + resource)
}

func adjustCommand() *cobra.Command {
	var cost costs
	var limits rules
	var tier string
	return online(&cobra.Command{
		Use: "adjust ENTITY [RESOURCE]", Short: "consume or refund unconditionally",
		Long: `An adjustment may leave a debt, which refill repays. Where nobody says the tier
and no limit is stored for the entity, it goes by the rule that the bucket was
last taken by.`,
		Example: "sluice adjust alice chat --cost tpm=-500",
	}, func(f *pflag.FlagSet) {
		f.Var(&cost, "cost", "`cost` by limit, such as tpm=500; negative is a refund")
		f.Var(&limits, "limit", "a limit as `name=rule`, in place of the stored ones; may be repeated")
		tierFlag(f, &tier)
	}, func(ctx context.Context, c *call) error {
		if !cost.all.IsZero() || len(cost.each) == 0 {
			return c.wrong("want --cost by limit, such as tpm=-500")
		}
		d, err := c.client.Adjust(ctx, client.Take{Entity: c.arg(0), Resource: c.arg(1), Tier: tier, Costs: cost.each, Limits: limits})
		return c.settled("adjusted", &d, err)
	})
}

func statusCommand() *cobra.Command {
	var me bool
	var tier string
	return online(&cobra.Command{
		Use: "status [ENTITY] [RESOURCE]", Short: "show how much of each limit is used",
		Long: `The table has tokens, utilization, alarm, waiting callers, the total ever taken
with the time of the last take, and the requests of the last minute to the
node that answers. Totals may be a second old. Without a resource it covers
all that the entity uses.`,
		Example: `sluice status alice api
sluice status --me --token @my-key`,
	}, func(f *pflag.FlagSet) {
		f.BoolVar(&me, "me", false, "show the holder of the API key in --token; the only argument is then RESOURCE")
		tierFlag(f, &tier)
	}, func(ctx context.Context, c *call) error {
		var s client.Status
		var err error
		switch {
		case me && tier != "":
			return c.wrong("--tier: does not go with --me, who has the tier of the key")
		case me && len(c.args) > 1:
			return c.wrong("unexpected argument %q", c.args[1])
		case me:
			s, err = c.client.Me(ctx, c.arg(0))
		case len(c.args) == 0:
			return c.wrong("ENTITY is missing")
		default:
			s, err = c.client.Status(ctx, c.subject(tier))
		}
		return c.printAnswer(err, statusText(&s))
	})
}

func statusText(s *client.Status) string {
	head := nameOf(s.Entity, s.Resource)
	if s.Tier != "" {
		head += ", tier " + printable(s.Tier)
	}
	if len(s.Limits) == 0 {
		return head + ": no limit applies\n"
	}
	t := newTable("ENTITY", "RESOURCE", "LIMIT", "RULE", "LEVEL", ">LEFT", ">OF", ">USED", "ALARM", "FULL IN",
		">CONSUMED", ">TAKES", "LAST", ">WAITING", ">ALLOWED", ">REFUSED", ">FAILED")
	upgrade, away := false, ""
	for i := range s.Limits {
		l := &s.Limits[i]
		upgrade = upgrade || l.Upgrade
		left, used, full := "", "", ""
		if l.Unknown {
			away = l.Source
		} else {
			left, used, full = l.Remaining.String(), percent(l.Utilization), span(l.ResetAfter)
		}
		consumed, takes, last := totals(l.Total)
		allowed, refused, failed := recent(l.Node)
		t.add(l.Entity, l.Resource, l.Limit, l.RuleText(), l.Level, left, l.Capacity.String(), used, string(l.Alarm), full,
			consumed, takes, last, inLine(&l.Activity), allowed, refused, failed)
	}
	text := fmt.Sprintf("%s: %s\n%s", head, cmp.Or(string(s.Alarm), "not known, the store is away"), t)
	if away != "" {
		text += fmt.Sprintf("what is left is not known (%s): the store is away\n", away)
	}
	if away := storeText(s.Store); away != "" {
		text += away + "\n"
	}
	if upgrade {
		text += "near a limit: a larger plan would help\n"
	}
	return text
}

// storeText tells people about a state of the store that is not normal.
func storeText(state string) string {
	if state == "" || state == failover.Normal.String() {
		return ""
	}
	return "the store is " + printable(state) + ": local quotas decide for some or all"
}

// totals are what was ever taken from a bucket, for people.
func totals(t *client.Total) (amount, takes, last string) {
	if t == nil {
		return "", "", ""
	}
	return t.Consumed.String(), number(t.Takes), moment(t.LastTaken)
}

// recent is what one node was asked of a bucket, for people.
func recent(n *client.Node) (allowed, refused, failed string) {
	if n == nil {
		return "", "", ""
	}
	return number(n.Allowed), number(n.Refused), number(n.Failed)
}

// inLine is who waits for a bucket, for people: callers of the node that
// answered and for how long the first has, and on how many nodes there are any.
func inLine(a *client.Activity) string {
	nodes := 0
	if a.WaitingNodes != nil {
		nodes = *a.WaitingNodes
	}
	switch {
	case a.Node == nil && a.WaitingNodes == nil:
		return ""
	case nodes > 0 && (a.Node == nil || a.Node.Waiting == 0):
		return onNodes(nodes)
	case a.Node == nil || a.Node.Waiting == 0:
		return "0"
	}
	text := fmt.Sprintf("%d for %s", a.Node.Waiting, coarse(time.Duration(a.Node.LongestWait*float64(time.Second))))
	if nodes > 1 {
		text += ", " + onNodes(nodes)
	}
	return text
}

func onNodes(n int) string {
	if n == 1 {
		return "on 1 node"
	}
	return fmt.Sprintf("on %d nodes", n)
}

func explainCommand() *cobra.Command {
	t := takeFlags{}
	var r client.Request
	return online(&cobra.Command{
		Use: "explain [ENTITY] [RESOURCE]", Short: "explain which limits apply to a take or a request, from which level, and why it is refused",
		Long: `Nothing is consumed, and the exit code is 0 even if the take would be refused.
With --path it explains an HTTP request to the server's policy: endpoint, cost,
caller, tier, each limit with its level and state, and the answer.`,
		Example: "sluice explain alice chat --cost tpm=4000\nsluice explain --method POST --path /api/search --address 192.0.2.1",
	}, func(f *pflag.FlagSet) {
		t.define(f)
		f.StringVar(&r.Path, "path", "", "explain a request to this `path`")
		f.StringVar(&r.Method, "method", "GET", "the request's `method`")
		f.StringVar(&r.Key, "key", "", "the API key that the request carries, a `secret`; @file reads it from a file")
		f.StringVar(&r.Address, "address", "", "the `ip` address that the request comes from")
	}, func(ctx context.Context, c *call) error {
		other := []string{"method", "key", "address"}
		if r.Path != "" {
			other = []string{"cost", "limit", "tier"}
		}
		for _, name := range other {
			if c.said(name) {
				return c.wrong("--%s: %s", name, map[bool]string{true: "does not go with --path", false: "needs --path"}[r.Path != ""])
			}
		}
		if r.Path != "" {
			return explainRequest(ctx, c, r)
		}
		if len(c.args) == 0 {
			return c.wrong("ENTITY or --path is missing")
		}
		take, err := t.take(c)
		if err != nil {
			return err
		}
		e, err := c.client.Explain(ctx, take)
		var would string
		if e.Problem != nil {
			would = "a take would be an error: " + printable(e.Problem.Detail) + "\n"
		}
		if e.Decision != nil {
			would += map[bool]string{true: "a take", false: "a lease"}[e.Problem == nil] + " would be " + decisionText(e.Decision, take.Entity)
		}
		return c.printAnswer(err, strings.TrimSpace(e.Text)+"\n\n"+would)
	})
}

func explainRequest(ctx context.Context, c *call, r client.Request) (err error) {
	if len(c.args) > 0 {
		return c.wrong("unexpected argument %q: a request is sent by a --key or an --address", c.args[0])
	}
	if r.Key, err = secret(r.Key); err != nil {
		return err
	}
	e, err := c.client.ExplainRequest(ctx, r)
	return c.printAnswer(err, e.Text)
}
