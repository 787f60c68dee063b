package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice"
)

func leaseCommand() *command {
	return &command{
		name: "lease", summary: "take now, and settle when the real cost is known",
		about: `A lease
is consumed at once. End it with commit, which keeps what it cost, or release,
which gives everything back. One that is forgotten expires.`,
		sub: []*command{acquireCommand(), settleCommand(), commitCommand(), releaseCommand()},
		examples: []string{
			"sluice lease acquire alice chat --cost tpm=1000",
			"sluice lease commit ID --cost tpm=812",
		},
	}
}

func acquireCommand() *command {
	t := takeFlags{waiting: true, lease: true}
	return &command{
		name: "acquire", args: "ENTITY [RESOURCE]", summary: "take, and get a lease",
		flags: t.define,
		examples: []string{
			"sluice lease acquire alice chat --cost rpm=1,tpm=1000",
			"sluice lease acquire alice jobs --limit 'jobs=5 concurrent' --keep 10m --wait 30s",
		},
		run: func(ctx context.Context, c *call) error {
			take, err := t.take(c)
			if err != nil {
				return err
			}
			var d sluice.Decision
			if t.wait != 0 {
				_, d, err = c.client.WaitAcquire(ctx, take)
			} else {
				_, d, err = c.client.Acquire(ctx, take)
			}
			if err == nil && d.Allowed {
				if err := c.say("lease %s", d.ID); err != nil {
					return err
				}
			}
			return c.decision(&d, err)
		},
	}
}

func settleCommand() *command {
	var cost costs
	var keep period
	return &command{
		name: "adjust", args: "LEASE", summary: "set what a lease costs, or let it live longer",
		about: "The costs are whole ones, not differences, so\nrepeating it is safe. They may leave a debt, which refill repays.",
		flags: func(f *flag.FlagSet) {
			f.Var(&cost, "cost", "n | what it costs in all, by limit: tpm=812")
			f.Var(&keep, "keep", "duration | let it live for so long from now on")
		},
		examples: []string{"sluice lease adjust ID --cost tpm=1500", "sluice lease adjust ID --keep 10m"},
		run: func(ctx context.Context, c *call) error {
			lease := c.client.Lease(c.arg(0))
			if cost.all != 0 || len(cost.each) == 0 && keep == 0 {
				return c.wrong("want --cost by limit, such as tpm=812, or --keep")
			}
			if keep != 0 {
				if err := lease.Renew(ctx, time.Duration(keep)); err != nil {
					return c.trouble(err)
				}
				if len(cost.each) == 0 {
					return c.done("lives for %s from now on", span(time.Duration(keep)))
				}
			}
			d, err := lease.Adjust(ctx, cost.list()...)
			return c.settled("adjusted", &d, err)
		},
	}
}

func commitCommand() *command {
	var cost costs
	return &command{
		name: "commit", args: "LEASE", summary: "end a lease; its tokens stay spent",
		flags:    func(f *flag.FlagSet) { f.Var(&cost, "cost", "name=n | what it cost in the end, by limit: tpm=812") },
		examples: []string{"sluice lease commit ID", "sluice lease commit ID --cost tpm=812"},
		run: func(ctx context.Context, c *call) error {
			if cost.all != 0 {
				return c.wrong("want --cost by limit, such as tpm=812")
			}
			d, err := c.client.Lease(c.arg(0)).Commit(ctx, cost.list()...)
			return c.settled("committed", &d, err)
		},
	}
}

func releaseCommand() *command {
	return &command{
		name: "release", args: "LEASE", summary: "end a lease as if it had never been",
		examples: []string{"sluice lease release ID"},
		run: func(ctx context.Context, c *call) error {
			if err := c.client.Lease(c.arg(0)).Release(ctx); err != nil {
				return c.trouble(err)
			}
			return c.done("released")
		},
	}
}

// settled prints what became of a lease. A debt is no refusal.
func (c *call) settled(how string, d *sluice.Decision, err error) error {
	if err != nil {
		return c.trouble(err)
	}
	return c.printAnswer(func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, how); err != nil {
			return err
		}
		t := newTable("LIMIT", "RULE", ">LEFT", "FULL IN")
		for i := range d.Demands {
			r := &d.Results[i]
			t.add(d.Demands[i].Key.Limit, d.Demands[i].Limit.String(), r.Remaining.String(), span(r.ResetAfter))
		}
		return t.writeTo(w)
	})
}
