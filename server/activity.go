package server

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// activity is what is asked of a bucket: by all nodes ever, as it is stored, and
// by this node lately.
type activity struct {
	WaitingNodes *int   `json:"waitingNodes,omitempty"` // how many have callers waiting in line; absent if that is not known
	Total        *total `json:"total,omitempty"`        // absent if it was never taken, or that is not known
	Node         *node  `json:"node,omitempty"`         // as this node has seen it
}

// total is what all nodes have ever taken. They write it down every second.
type total struct {
	Amount sluice.Tokens `json:"amount"` // less what was given back
	Takes  int64         `json:"takes"`
	Last   time.Time     `json:"last,omitzero"`
}

// node is what this node was asked in the last minute, and who waits here now.
type node struct {
	Allowed       int64 `json:"allowed"`
	Limited       int64 `json:"limited"`
	Failed        int64 `json:"failed"`
	Waiting       int   `json:"waiting"`
	LongestWaitMs int64 `json:"longestWaitMs,omitempty"`
}

// activities finds what is asked of buckets, in their order. Figures must not
// fail because the totals cannot be read.
func (s *server) activities(ctx context.Context, namespace string, keys []sluice.Key) []activity {
	var totals map[catalog.Series]catalog.Used
	if s.catalog != nil {
		series := make([]catalog.Series, len(keys))
		for i := range keys {
			series[i] = seriesOf(&keys[i])
		}
		var err error
		if totals, err = s.catalog.Totals(ctx, namespace, series); err != nil && ctx.Err() == nil {
			s.log.Warn("server: totals are left out", "error", err)
		}
	}
	all := make([]activity, len(keys))
	for i := range keys {
		if u, ok := totals[seriesOf(&keys[i])]; ok {
			all[i].Total = &total{u.Amount, u.Count, u.Last}
		}
		if s.activity != nil {
			seen, queue := s.activity.Of(keys[i]), s.limiter.Waiting(keys[i])
			all[i].Node = &node{seen.Allowed, seen.Limited, seen.Failed, queue.Length, queue.Longest.Milliseconds()}
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
