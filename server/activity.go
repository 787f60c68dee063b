package server

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// activities finds what is asked of buckets, in their order. Figures must not
// fail because the totals cannot be read.
func (s *server) activities(ctx context.Context, namespace string, keys []sluice.Key) []client.Activity {
	var totals map[catalog.Series]catalog.Used
	if s.catalog != nil {
		series := make([]catalog.Series, len(keys))
		for i := range keys {
			series[i] = seriesOf(&keys[i])
		}
		var err error
		if totals, err = s.catalog.Totals(ctx, namespace, series); err != nil && ctx.Err() == nil {
			s.log.Warn("server: cannot read totals", "error", err)
		}
	}
	all := make([]client.Activity, len(keys))
	for i := range keys {
		if u, ok := totals[seriesOf(&keys[i])]; ok {
			all[i].Total = &client.Total{Consumed: u.Amount, Takes: u.Count, LastTaken: u.Last}
		}
		if s.activity != nil {
			seen, queue := s.activity.Of(keys[i]), s.limiter.Waiting(keys[i])
			all[i].Node = &client.Node{
				Allowed: seen.Allowed, Refused: seen.Refused, Failed: seen.Failed,
				Waiting: queue.Length, LongestWait: queue.Longest.Round(time.Millisecond).Seconds(),
			}
		}
	}
	return all
}

// waiting is on how many nodes callers stand in line for each of the buckets,
// which are those of a resource, or of any. What is not known is left out.
func (s *server) waiting(ctx context.Context, keys []sluice.Key, resource string) map[sluice.Key]int {
	nodes := map[sluice.Key]int{}
	listed := map[string]bool{} // entities, and whether all their buckets are known
	for i := range keys {
		k := &keys[i]
		all, asked := listed[k.Entity]
		if !asked {
			page, err := s.limiter.List(ctx, sluice.Query{Namespace: k.Namespace, Entity: k.Entity, Resource: resource, Max: 1000})
			all = err == nil && page.Next == ""
			listed[k.Entity] = all
			for j := range page.Buckets {
				nodes[page.Buckets[j].Key] = page.Buckets[j].Tickets
			}
		}
		if _, found := nodes[*k]; !found && all {
			nodes[*k] = 0 // nothing of it is used
		}
	}
	return nodes
}

func seriesOf(k *sluice.Key) catalog.Series {
	return catalog.Series{Entity: k.Entity, Resource: k.Resource, Limit: k.Limit}
}
