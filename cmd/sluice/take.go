package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
)

// takeFlags are what a take can be told.
type takeFlags struct {
	cost           costs
	limits         rules
	tier, id       string
	priority       string
	wait, keep     period
	upTo           bool
	batch          string
	waiting, lease bool // whether it may wait, and whether it is a lease
}

func (t *takeFlags) define(f *pflag.FlagSet) {
	f.Var(&t.cost, "cost", "`cost` of the take, such as 3 or rpm=1,tpm=1200 (default 1)")
	f.Var(&t.limits, "limit", "a limit as `name=rule`, in place of the stored ones; may be repeated")
	tierFlag(f, &t.tier)
	if t.waiting {
		f.Var(&t.wait, "wait", "wait in line for this `duration`, at most 1m")
		choose(f, &t.priority, "priority", "normal", "place in line", "interactive", "normal", "batch")
		f.StringVar(&t.id, "idempotency-key", "", "`key` that makes the take safe to repeat")
	}
	if t.lease {
		f.Var(&t.keep, "keep", "`duration` after which the lease expires (default 1m)")
	}
}

func (t *takeFlags) take(c *call) (client.Take, error) {
	take := client.Take{
		Entity: c.arg(0), Resource: c.arg(1), Tier: t.tier, Cost: t.cost.all, Costs: t.cost.each, Limits: t.limits,
		ID: t.id, Keep: time.Duration(t.keep), Wait: time.Duration(t.wait),
	}
	switch t.priority {
	case "interactive":
		take.Priority = sluice.Interactive
	case "batch":
		take.Priority = sluice.Batch
	}
	if time.Duration(t.wait) > time.Minute {
		return take, c.wrong("--wait %s: want at most 1m", time.Duration(t.wait))
	}
	return take, nil
}

func takeCommand() *cobra.Command {
	t := takeFlags{waiting: true}
	return online(&cobra.Command{
		Use: "take [ENTITY] [RESOURCE]", Short: "consume from all limits that apply, or from none",
		Long: `The exit code is 0 if the take was allowed and 1 if it was refused; a refusal
consumes nothing. Concurrency limits need a lease.

--batch reads takes from a file, or from standard input for -, one JSON object
a line as in POST /v1/takes, and decides each separately.`,
		Example: `sluice take alice api
sluice take alice chat --cost rpm=1,tpm=1200
sluice take alice mail --limit 'daily=50/day UTC' --limit rate=5/s
sluice take alice api --wait 10s --priority batch
sluice take alice api --json && ./expensive-thing`,
	}, func(f *pflag.FlagSet) {
		t.define(f)
		f.BoolVar(&t.upTo, "up-to", false, "take as much of the cost as is available")
		f.StringVar(&t.batch, "batch", "", "`file` of takes, as JSON lines")
	}, func(ctx context.Context, c *call) error {
		if t.batch != "" {
			return takeBatch(ctx, c, t.batch, t.id)
		}
		if len(c.args) == 0 {
			return c.wrong("ENTITY is missing")
		}
		take, err := t.take(c)
		if err != nil {
			return err
		}
		var d sluice.Decision
		switch {
		case t.wait != 0 && t.upTo:
			return c.wrong("--up-to: does not wait")
		case t.wait != 0:
			d, err = c.client.Wait(ctx, take)
		case t.upTo:
			d, err = c.client.TakeUpTo(ctx, take)
		default:
			d, err = c.client.Take(ctx, take)
		}
		return c.decision(&d, err)
	})
}

func peekCommand() *cobra.Command {
	t := takeFlags{}
	return online(&cobra.Command{
		Use: "peek ENTITY [RESOURCE]", Short: "print what take would, and consume nothing",
		Example: `sluice peek alice api
sluice peek alice chat --cost tpm=4000`,
	}, t.define, func(ctx context.Context, c *call) error {
		take, err := t.take(c)
		if err != nil {
			return err
		}
		d, err := c.client.Peek(ctx, take)
		return c.decision(&d, err)
	})
}

// decision prints the answer to a take, and turns a refusal into errRefused.
func (c *call) decision(d *sluice.Decision, err error) error {
	var refused *sluice.RefusedError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if err := c.printAnswer(nil, decisionText(d, c.arg(0))); err != nil {
		return err
	}
	if !d.Allowed {
		return errRefused
	}
	return nil
}

// verdict is a decision in one line.
func verdict(d *sluice.Decision) string {
	var b strings.Builder
	if d.Allowed {
		b.WriteString("allowed")
	} else if len(d.Demands) == 0 {
		b.WriteString("refused")
	} else {
		demand, result := d.Deciding()
		fmt.Fprintf(&b, "refused by %s of %s (%s, level %s)", demand.Key.Limit, demand.Key.Entity, demand.Limit, demand.Level)
		if d.RetryAfter == sluice.Never {
			fmt.Fprintf(&b, ": it can never pass, the capacity is %s", demand.Limit.Capacity())
		} else {
			b.WriteString(": ")
			if reason := d.Reason(); reason != "" {
				b.WriteString(reason + ", ")
			}
			fmt.Fprintf(&b, "try again in %s", span(d.RetryAfter))
			if result.LatestAfter > d.RetryAfter {
				fmt.Fprintf(&b, ", at the latest in %s", span(result.LatestAfter))
			}
		}
	}
	if d.Repeated {
		b.WriteString(", as answered before")
	}
	if d.Source >= sluice.Degraded && d.Reason() == "" {
		fmt.Fprintf(&b, " (%s: the store is away)", d.Source)
	}
	return printable(b.String())
}

func decisionText(d *sluice.Decision, entity string) string {
	if len(d.Demands) == 0 {
		return verdict(d) + "\n"
	}
	others := false
	for i := range d.Demands {
		others = others || d.Demands[i].Key.Entity != entity
	}
	columns := []string{"LIMIT", "RULE", "LEVEL", ">TAKEN", ">LEFT", "FULL IN", ""}
	if others {
		columns = append([]string{"ENTITY"}, columns...)
	}
	t := newTable(columns...)
	for i := range d.Demands {
		demand, r := &d.Demands[i], &d.Results[i]
		note := " "
		switch {
		case demand.Shadow && !r.Fits:
			note = "would refuse (shadow)"
		case demand.Shadow:
			note = "shadow"
		case !r.Fits && r.RetryAfter == sluice.Never:
			note = "never fits"
		case !r.Fits && r.LatestAfter > r.RetryAfter:
			note = "fits in " + span(r.LatestAfter) + " at the latest"
		case !r.Fits:
			note = "fits in " + span(r.RetryAfter)
		}
		left, full := "", ""
		if !r.Unknown {
			left, full = r.Remaining.String(), span(r.ResetAfter)
		}
		row := []string{
			demand.Key.Limit, demand.Limit.String(), demand.Level.String(),
			r.Consumed.String(), left, full, note,
		}
		if others {
			row = append([]string{demand.Key.Entity}, row...)
		}
		t.add(row...)
	}
	return verdict(d) + "\n" + t.String()
}
