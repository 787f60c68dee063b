package envoy

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice"
)

// ask gets a result for each descriptor in c.asked.
//
// Limits that count as envoyproxy/ratelimit does are independent of each
// other; those that are all or nothing go together. Nearly all requests have
// one kind, name each bucket once and do not look without counting: they are
// one take. The rest of this file is for the others.
func (c *call) ask(ctx context.Context) error {
	counting, looks, distinct := 0, 0, len(c.asked) <= sluice.MaxDemands
	for n, i := range c.asked {
		f := &c.found[i]
		if f.rule.counting {
			counting++
		}
		if f.hits == 0 {
			looks++
		}
		for _, j := range c.asked[:n] {
			if c.sameBucket(f, &c.found[j]) {
				distinct = false
			}
		}
	}
	switch {
	case c.service.settings.StopCounting && counting > 0 && distinct:
		return c.askStopping(ctx)
	case c.service.settings.StopCounting && counting > 0:
		return c.askStoppingApart(ctx)
	case distinct && looks == 0 && (counting == 0 || counting == len(c.asked)):
		return c.takeAll(ctx, c.asked, false)
	}
	return c.askInSteps(ctx)
}

func (c *call) sameBucket(a, b *found) bool {
	return a.entity == b.entity && a.rule.limitName == b.rule.limitName
}

// askInSteps first counts where refused hits count, and then takes the rest:
// all of it, or none if the request is refused.
func (c *call) askInSteps(ctx context.Context) error {
	var counting, rest []int
	for _, i := range c.asked {
		if c.found[i].rule.counting {
			counting = append(counting, i)
		} else {
			rest = append(rest, i)
		}
	}
	for len(counting) > 0 {
		var round []int
		round, counting = c.distinct(counting)
		if err := c.askRound(ctx, round); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	refused := false
	for _, i := range c.asked {
		if f := &c.found[i]; f.rule.counting && f.over && c.blocks(f) {
			refused = true
		}
	}
	return c.askTogether(ctx, rest, refused)
}

// distinct are the descriptors that are the first of those given to name
// their bucket, as many as a take can have, and the others. What one request
// says twice counts twice, one after the other.
func (c *call) distinct(all []int) (first, later []int) {
next:
	for _, i := range all {
		for _, j := range first {
			if c.sameBucket(&c.found[i], &c.found[j]) {
				later = append(later, i)
				continue next
			}
		}
		if len(first) == sluice.MaxDemands {
			later = append(later, i)
			continue
		}
		first = append(first, i)
	}
	return first, later
}

// askRound looks at those that have no hits and counts the others.
func (c *call) askRound(ctx context.Context, round []int) error {
	looks, takes := c.looks(round)
	if err := c.takeAll(ctx, looks, true); err != nil {
		return err
	}
	return c.takeAll(ctx, takes, false)
}

func (c *call) looks(all []int) (looks, takes []int) {
	for _, i := range all {
		if c.found[i].hits == 0 {
			looks = append(looks, i)
		} else {
			takes = append(takes, i)
		}
	}
	return looks, takes
}

// askTogether takes all or nothing. Descriptors of the same bucket share one
// demand with all their hits.
func (c *call) askTogether(ctx context.Context, all []int, refused bool) error {
	looks, takes := c.looks(all)
	for len(looks) > 0 {
		var round []int
		round, looks = c.distinct(looks)
		if err := c.takeAll(ctx, round, true); err != nil {
			return err
		}
	}
	first, later := c.distinct(takes)
	for _, i := range later {
		shared := false
		for _, j := range first {
			if c.sameBucket(&c.found[i], &c.found[j]) {
				c.found[j].hits += c.found[i].hits
				shared = true
			}
		}
		if !shared {
			return serviceError("a request can have at most 64 descriptors whose limits are all or nothing")
		}
	}
	if err := c.takeAll(ctx, first, refused); err != nil {
		return err
	}
	for _, i := range later {
		for _, j := range first {
			if f, of := &c.found[i], &c.found[j]; c.sameBucket(f, of) {
				f.result, f.time, f.over = of.result, of.time, of.over
			}
		}
	}
	return nil
}

// takeAll asks about descriptors of different buckets in one take, or only
// looks.
func (c *call) takeAll(ctx context.Context, which []int, look bool) error {
	if len(which) == 0 {
		return nil
	}
	c.demand(which)
	c.take.Peek = look
	limiter := c.service.exact
	for _, i := range which {
		if !c.found[i].rule.counting {
			limiter = c.service.limiter
		}
	}
	if err := limiter.Decide(ctx, &c.take, &c.decision); err != nil {
		return err
	}
	if c.decision.Source >= sluice.Degraded && !c.service.settings.LocalQuotas {
		return fmt.Errorf("%w: the decision is %s", sluice.ErrUnavailable, c.decision.Source)
	}
	for n, i := range which {
		f := &c.found[i]
		f.result, f.time = c.decision.Results[n], c.decision.Time
		// Without hits a counter is over only if it was before.
		f.over = !f.result.Fits
		if f.hits == 0 {
			f.over = f.result.Remaining.Thousandths() < 0
		}
	}
	return nil
}

// demand makes a take of descriptors.
func (c *call) demand(which []int) {
	stopping := c.service.settings.StopCounting
	away := sluice.Deny // what is decided locally is an error, so the store is asked as soon as it is back
	if c.service.settings.LocalQuotas {
		away = sluice.Degrade
	}
	demands := c.take.Demands[:0]
	for _, i := range which {
		f := &c.found[i]
		demands = append(demands, sluice.Demand{
			Key:          sluice.Key{Namespace: c.service.namespace, Entity: f.entity, Resource: c.domain.resource, Limit: f.rule.limitName},
			Limit:        f.rule.limit,
			Cost:         sluice.Thousandths(min(f.cost(), sluice.MaxThousandths)), // several descriptors may share a demand
			CountRefused: f.rule.counting && !stopping,
			// What counts by itself needs no shadow: it blocks nobody here.
			Shadow:   !f.rule.counting && !c.blocks(f),
			Critical: f.rule.exact && (!f.rule.counting || stopping),
			Level:    sluice.LevelResource, OnUnavailable: away,
		})
	}
	c.take.Demands = demands
}

// maxHits is as much as a take can cost.
const maxHits = uint64(sluice.MaxThousandths / sluice.Token)
