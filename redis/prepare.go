package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
)

// clusterRefresh is how often the layout of a cluster is looked at anyway.
const clusterRefresh = 5 * time.Second

// tune sets what does not depend on the address.
func tune(o *rueidis.ClientOption, c *Config) {
	// Whether a call may be repeated is for this package to know.
	o.DisableRetry = true
	o.DisableCache = true
	// One connection gathers more calls in each packet than several would,
	// which spares both sides system calls.
	o.PipelineMultiplex = -1
	o.ClientName = "sluice"
	o.Dialer.Timeout = c.Timeout
	o.Sentinel.Dialer.Timeout = c.Timeout
	// A connection that is silent for so long is given up.
	o.ConnWriteTimeout = 2 * c.Timeout
	o.ClusterOption.MaxMovedRedirections = 8
	o.ClusterOption.ShardsRefreshInterval = clusterRefresh
}

// prepare loads the script and looks for settings that would lose buckets.
// That it can be done proves that the store works.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*s.config.Timeout)
	defer cancel()
	for addr, node := range s.client.Nodes() {
		err := node.Do(ctx, node.B().ScriptLoad().Script(script).Build()).Error()
		if err != nil && !s.cluster {
			return fmt.Errorf("redis: %s: %w: %w", addr, sluice.ErrUnavailable, err)
		}
		// In a cluster some node may be away; it gets the script later.
		if err == nil {
			s.warnOfEviction(ctx, addr, node)
		}
	}
	return ctx.Err()
}

// warnOfEviction warns if the server may throw buckets away: an evicted bucket
// is a full one.
func (s *Store) warnOfEviction(ctx context.Context, addr string, node rueidis.Client) {
	info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return // not permitted, perhaps; it is only a warning
	}
	for line := range strings.Lines(info) {
		policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if ok && policy != "noeviction" {
			s.config.Log.Warn("redis may evict buckets, and an evicted bucket is full again: set maxmemory-policy noeviction",
				"node", addr, "maxmemory-policy", policy)
		}
	}
}
