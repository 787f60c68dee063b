package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice"
)

func leaseCommand() *cobra.Command {
	return branch(&cobra.Command{
		Use: "lease", Short: "take now and settle when the real cost is known",
		Long: `The cost of a lease is consumed at once. End the lease with commit, which keeps
the cost, or with release, which returns it. A lease that is not ended expires.`,
		Example: `sluice lease acquire alice chat --cost tpm=1000
sluice lease commit ID --cost tpm=812`,
	}, acquireCommand(), settleCommand(), commitCommand(), releaseCommand())
}

func acquireCommand() *cobra.Command {
	t := takeFlags{waiting: true, lease: true}
	return online(&cobra.Command{
		Use: "acquire ENTITY [RESOURCE]", Short: "take, and print a lease",
		Example: `sluice lease acquire alice chat --cost rpm=1,tpm=1000
sluice lease acquire alice jobs --limit 'jobs=5 concurrent' --keep 10m --wait 30s`,
	}, t.define, func(ctx context.Context, c *call) error {
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
		if err == nil && d.ID != "" {
			if err := c.say("lease %s", d.ID); err != nil {
				return err
			}
		}
		return c.decision(&d, err)
	})
}

func settleCommand() *cobra.Command {
	var cost costs
	var keep period
	return online(&cobra.Command{
		Use: "adjust LEASE", Short: "set the cost of a lease, or extend it",
		Long: `Costs are totals, not differences, so the command is safe to repeat. They may
leave a debt, which refill repays.`,
		Example: `sluice lease adjust ID --cost tpm=1500
sluice lease adjust ID --keep 10m`,
	}, func(f *pflag.FlagSet) {
		f.Var(&cost, "cost", "total `cost` by limit, such as tpm=812")
		f.Var(&keep, "keep", "let it expire this `duration` from now")
	}, func(ctx context.Context, c *call) error {
		lease := c.client.Lease(c.arg(0))
		if !cost.all.IsZero() || len(cost.each) == 0 && keep == 0 {
			return c.wrong("want --cost by limit, such as tpm=812, or --keep")
		}
		if keep != 0 {
			if err := lease.Renew(ctx, time.Duration(keep)); err != nil {
				return err
			}
			if len(cost.each) == 0 {
				return c.done(nil, "lives for %s from now on", span(time.Duration(keep)))
			}
		}
		d, err := lease.Adjust(ctx, cost.list()...)
		return c.settled("adjusted", &d, err)
	})
}

func commitCommand() *cobra.Command {
	var cost costs
	return online(&cobra.Command{
		Use: "commit LEASE", Short: "end a lease and keep its tokens spent",
		Example: `sluice lease commit ID
sluice lease commit ID --cost tpm=812`,
	}, func(f *pflag.FlagSet) { f.Var(&cost, "cost", "final `cost` by limit, such as tpm=812") }, func(ctx context.Context, c *call) error {
		if !cost.all.IsZero() {
			return c.wrong("want --cost by limit, such as tpm=812")
		}
		d, err := c.client.Lease(c.arg(0)).Commit(ctx, cost.list()...)
		return c.settled("committed", &d, err)
	})
}

func releaseCommand() *cobra.Command {
	return online(&cobra.Command{
		Use: "release LEASE", Short: "end a lease and return its tokens",
		Example: "sluice lease release ID",
	}, nil, func(ctx context.Context, c *call) error {
		return c.done(c.client.Lease(c.arg(0)).Release(ctx), "released")
	})
}

// settled prints what became of a lease. A debt is no refusal.
func (c *call) settled(how string, d *sluice.Decision, err error) error {
	t := newTable("LIMIT", "RULE", ">LEFT", "FULL IN")
	for i := range d.Demands {
		r := &d.Results[i]
		t.add(d.Demands[i].Key.Limit, d.Demands[i].Limit.String(), r.Remaining.String(), span(r.ResetAfter))
	}
	return c.printAnswer(err, how+"\n"+t.String())
}
