package world

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

func TestRedis(t *testing.T) {
	p := faultproxy.Start(t, redistest.Start(t).Addr())
	live(t, []*faultproxy.Proxy{p}, func() (sluice.Store, error) {
		return limitstore.Open(context.Background(), redis.Config{Address: "redis://" + p.Addr(), Log: guard.Log})
	})
}

// TestRedisCluster has all clients reach the primaries through proxies.
func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	proxies := slices.Collect(maps.Values(cluster.Proxies()))
	live(t, proxies, func() (sluice.Store, error) {
		return limitstore.Open(context.Background(), redis.Config{Address: cluster.URL(), Log: guard.Log})
	})
}
