package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-go/sluice/client"
)

func resetCommand() *command {
	return &command{
		name: "reset", args: "ENTITY [RESOURCE]", summary: "make the buckets of an entity as new",
		about:    "Those of its parents stay\nas they are.",
		examples: []string{"sluice reset alice api"},
		run: func(ctx context.Context, c *call) error {
			if err := c.client.Reset(ctx, c.arg(0), c.arg(1)); err != nil {
				return c.trouble(err)
			}
			return c.done("reset %s", nameOf(c.arg(0), c.arg(1)))
		},
	}
}

// nameOf is who and what, for people.
func nameOf(entity, resource string) string {
	if resource == "" {
		return printable(entity)
	}
	return printable(entity + " on " + resource)
}

func adjustCommand() *command {
	var cost costs
	var limits rules
	return &command{
		name: "adjust", args: "ENTITY [RESOURCE]", summary: "consume or refund without asking",
		about: "It may leave a\ndebt, which refill repays.",
		flags: func(f *flag.FlagSet) {
			f.Var(&cost, "cost", "name=n | how much of which limits: tpm=500; negative is a refund")
			f.Var(&limits, "limit", "name=rule | a limit as name=rule in place of those stored; may be repeated")
		},
		examples: []string{"sluice adjust alice chat --cost tpm=-500"},
		run: func(ctx context.Context, c *call) error {
			if cost.all != 0 || len(cost.each) == 0 {
				return c.wrong("want --cost by limit, such as tpm=-500")
			}
			d, err := c.client.Adjust(ctx, client.Take{Entity: c.arg(0), Resource: c.arg(1), Costs: cost.each, Limits: limits})
			return c.settled("adjusted", &d, err)
		},
	}
}

func statusCommand() *command {
	var me bool
	return &command{
		name: "status", args: "[ENTITY] [RESOURCE]", summary: "show how much of each limit is used",
		about: `It
shows tokens, utilization, the alarm (warning from 70 %, critical from 90 %), who
waits in line, what was ever taken and when last, and what the node that answers
was asked in the last minute. What was ever taken is up to a second old. Without
a resource it is about all that the entity uses.`,
		flags: func(f *flag.FlagSet) {
			f.BoolVar(&me, "me", false, "for the holder of the API key in --token; then [RESOURCE] only")
		},
		examples: []string{"sluice status alice api", "sluice status --me --token @my-key"},
		run: func(ctx context.Context, c *call) error {
			var s client.Status
			var err error
			switch {
			case me && len(c.args) > 1:
				return c.wrong("unexpected argument %q", c.args[1])
			case me:
				s, err = c.client.Me(ctx, c.arg(0))
			case len(c.args) == 0:
				return c.wrong("ENTITY is missing")
			default:
				s, err = c.client.Status(ctx, c.arg(0), c.arg(1))
			}
			if err != nil {
				return c.trouble(err)
			}
			return c.printAnswer(func(w io.Writer) error { return writeStatus(w, &s) })
		},
	}
}

func writeStatus(w io.Writer, s *client.Status) error {
	head := nameOf(s.Entity, s.Resource)
	if s.Tier != "" {
		head += ", tier " + printable(s.Tier)
	}
	if len(s.Limits) == 0 {
		_, err := fmt.Fprintln(w, head+": no limit applies")
		return err
	}
	if _, err := fmt.Fprintf(w, "%s: %s\n", head, cmp.Or(string(s.Alarm), "not known, the store is away")); err != nil {
		return err
	}
	t := newTable("ENTITY", "RESOURCE", "LIMIT", "RULE", "FROM", ">LEFT", ">OF", ">USED", "ALARM", "FULL IN",
		">CONSUMED", ">TAKES", "LAST", ">WAITING", ">ALLOWED", ">LIMITED", ">FAILED")
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
		allowed, limited, failed := recent(l.Node)
		t.add(l.Entity, l.Resource, l.Limit, l.Rule.String(), l.From, left, l.Capacity.String(), used, string(l.Alarm), full,
			consumed, takes, last, inLine(&l.Activity), allowed, limited, failed)
	}
	if err := t.writeTo(w); err != nil {
		return err
	}
	if away != "" {
		if _, err := fmt.Fprintf(w, "what is left is not known (%s): the store is away\n", away); err != nil {
			return err
		}
	}
	if upgrade {
		_, err := fmt.Fprintln(w, "near a limit: a larger plan would help")
		return err
	}
	return nil
}

// totals are what was ever taken from a bucket, for people.
func totals(t *client.Total) (amount, takes, last string) {
	if t == nil {
		return "", "", ""
	}
	return t.Amount.String(), number(t.Takes), moment(t.Last)
}

// recent is what one node was asked of a bucket, for people.
func recent(n *client.Node) (allowed, limited, failed string) {
	if n == nil {
		return "", "", ""
	}
	return number(n.Allowed), number(n.Limited), number(n.Failed)
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
	text := fmt.Sprintf("%d for %s", a.Node.Waiting, coarse(time.Duration(a.Node.LongestWaitMs)*time.Millisecond))
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

func explainCommand() *command {
	t := takeFlags{}
	var r client.Request
	return &command{
		name: "explain", args: "[ENTITY] [RESOURCE]", summary: "say which limits apply to a take or a request, from where, and why it is refused",
		about: `It
consumes nothing, and exits with 0 even if the take would be refused. With --path
it is about an HTTP request to the server's policy: endpoint, cost, caller, tier,
each limit with its level and state, and the answer.`,
		flags: func(f *flag.FlagSet) {
			t.define(f)
			f.StringVar(&r.Path, "path", "", "path | explain a request to this path")
			f.StringVar(&r.Method, "method", "GET", "method | the request's method")
			f.StringVar(&r.Key, "key", "", "secret | the API key that the request carries; @file reads it from a file")
			f.StringVar(&r.Address, "address", "", "ip | the address that the request comes from")
		},
		examples: []string{"sluice explain alice chat --cost tpm=4000", "sluice explain --method POST --path /api/search --address 192.0.2.1"},
		run: func(ctx context.Context, c *call) error {
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
			if err != nil {
				return c.trouble(err)
			}
			return c.printAnswer(func(w io.Writer) error {
				if _, err := fmt.Fprintln(w, strings.TrimSpace(e.Text)); err != nil {
					return err
				}
				if e.Decision == nil {
					_, err := fmt.Fprintln(w, "\na take would be allowed: no limit applies")
					return err
				}
				if _, err := fmt.Fprint(w, "\na take would be "); err != nil {
					return err
				}
				return writeDecision(w, e.Decision, take.Entity)
			})
		},
	}
}

func explainRequest(ctx context.Context, c *call, r client.Request) (err error) {
	if len(c.args) > 0 {
		return c.wrong("unexpected argument %q: a request is sent by a --key or an --address", c.args[0])
	}
	if r.Key, err = secret(r.Key); err != nil {
		return err
	}
	e, err := c.client.ExplainRequest(ctx, r)
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		_, err := io.WriteString(w, e.Text)
		return err
	})
}
