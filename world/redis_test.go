package world

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

func TestRedis(t *testing.T) {
	p := faultproxy.Start(t, redistest.Start(t).Addr())
	live(t, []*faultproxy.Proxy{p}, func() (sluice.Store, error) {
		return redis.Open(context.Background(), redis.Config{Address: "redis://" + p.Addr(), Log: guard.Log})
	})
}

// TestRedisCluster has all clients reach the primaries through proxies.
func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	var proxies []*faultproxy.Proxy
	for _, node := range cluster.Primaries() {
		p := faultproxy.Start(t, node.Addr())
		_, port, err := net.SplitHostPort(p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		node.Must("CONFIG", "SET", "cluster-announce-port", port)
		proxies = append(proxies, p)
	}
	redistest.Eventually(t, time.Minute, "all nodes tell of the proxies", func() bool {
		for _, node := range cluster.Nodes {
			layout := node.Must("CLUSTER", "NODES")
			for _, p := range proxies {
				if !strings.Contains(layout, p.Addr()) {
					return false
				}
			}
		}
		return true
	})
	live(t, proxies, func() (sluice.Store, error) {
		return redis.Open(context.Background(), redis.Config{Address: cluster.URL(), Log: guard.Log})
	})
}
