package envoy

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice"
)

// With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, if a descriptor would be over,
// only those that would be are counted.

// askStopping is for requests that name each bucket once: a take that is
// refused consumes nothing, and then what was over is counted.
func (c *call) askStopping(ctx context.Context) error {
	looks, takes := c.looks(c.asked)
	if err := c.takeAll(ctx, looks, true); err != nil {
		return err
	}
	refused := false
	for _, i := range looks {
		refused = refused || c.found[i].over
	}
	if err := c.takeAll(ctx, takes, refused); err != nil {
		return err
	}
	var over []int
	for _, i := range takes {
		if f := &c.found[i]; f.over && f.rule.counting {
			over = append(over, i)
		}
	}
	if len(over) == 0 {
		return nil
	}
	c.demand(over)
	d, err := c.service.exact.Adjust(ctx, c.take.Demands...)
	if err != nil {
		return err
	}
	for n, i := range over {
		f := &c.found[i]
		f.result.Remaining, f.result.Consumed = d.Results[n].Remaining, d.Results[n].Consumed
	}
	return nil
}

// sharedBucket is a bucket with the descriptors that name it, in order. Their
// limits may differ, if they bring their own.
type sharedBucket struct {
	named []int
	add   int64 // what is counted
	used  int64 // before that
}

// askStoppingApart is for the others. As in envoyproxy/ratelimit it first
// looks at all buckets and then counts, and somebody else may come in between.
func (c *call) askStoppingApart(ctx context.Context) error {
	buckets := c.buckets()
	stopping := false
	for _, part := range parts(buckets) {
		if err := c.takeAll(ctx, firsts(part), true); err != nil {
			return err
		}
		for _, b := range part {
			first := c.found[b.named[0]]
			b.used = first.rule.limit.Capacity().Thousandths() - first.result.Remaining.Thousandths()
			for _, i := range b.named {
				f := &c.found[i]
				f.time, f.over = first.time, b.used+f.cost() > f.rule.limit.Capacity().Thousandths()
				stopping = stopping || f.over
			}
		}
	}
	var counted []*sharedBucket
	for _, b := range buckets {
		for _, i := range b.named {
			if f := &c.found[i]; !stopping || f.over && f.rule.counting {
				f.result.Consumed = sluice.Thousandths(f.cost())
				b.add = min(b.add+f.cost(), sluice.MaxThousandths)
			}
		}
		if b.add > 0 {
			counted = append(counted, b)
		}
	}
	for _, part := range parts(counted) {
		c.demand(firsts(part))
		for n, b := range part {
			c.take.Demands[n].Cost = sluice.Thousandths(b.add)
		}
		d, err := c.service.exact.Adjust(ctx, c.take.Demands...)
		if err != nil {
			return err
		}
		for n, b := range part {
			b.used = c.take.Demands[n].Limit.Capacity().Thousandths() - d.Results[n].Remaining.Thousandths() - d.Results[n].Consumed.Thousandths()
		}
	}
	for _, b := range buckets {
		for _, i := range b.named {
			f := &c.found[i]
			b.used += f.result.Consumed.Thousandths()
			f.result.Remaining = sluice.Thousandths(f.rule.limit.Capacity().Thousandths() - b.used)
			f.over = f.result.Remaining.Thousandths() < 0 || f.over && !f.rule.counting
		}
	}
	return nil
}

// buckets are those that the request names.
func (c *call) buckets() (all []*sharedBucket) {
next:
	for _, i := range c.asked {
		for _, b := range all {
			if c.sameBucket(&c.found[i], &c.found[b.named[0]]) {
				b.named = append(b.named, i)
				continue next
			}
		}
		all = append(all, &sharedBucket{named: []int{i}})
	}
	return all
}

// parts are as many at a time as a take can have.
func parts(all []*sharedBucket) [][]*sharedBucket {
	return slices.Collect(slices.Chunk(all, sluice.MaxDemands))
}

// firsts are the first descriptors of buckets.
func firsts(buckets []*sharedBucket) []int {
	first := make([]int, len(buckets))
	for n, b := range buckets {
		first[n] = b.named[0]
	}
	return first
}
