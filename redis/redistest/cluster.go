package redistest

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/faultproxy"
)

// Cluster is a Redis Cluster of three primaries with a replica each.
type Cluster struct {
	Nodes []*Server
	tb    testing.TB
}

// StartCluster starts one, and waits until all slots are served and all
// replicas follow.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	args := []string{"--cluster", "create"}
	for range 6 {
		node := Start(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
		c.Nodes = append(c.Nodes, node)
		args = append(args, node.Addr())
	}
	args = append(args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		tb.Fatalf("redistest: redis-cli: %v\n%s", err, out)
	}
	Eventually(tb, time.Minute, "the cluster is complete", func() bool {
		replicas := 0
		for _, node := range c.Nodes {
			info, err := node.Do("CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
			if node.follows() {
				replicas++
			}
		}
		return replicas == 3
	})
	return c
}

// URL is the address as package redis takes it.
func (c *Cluster) URL() string {
	hosts := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		hosts[i] = node.Addr()
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// Primaries are the nodes that are up and serve slots.
func (c *Cluster) Primaries() []*Server {
	var up []*Server
	for _, node := range c.Nodes {
		if role, err := node.Do("ROLE"); err == nil && strings.HasPrefix(role, "master") {
			up = append(up, node)
		}
	}
	return up
}

// Shard is a primary and its replicas.
func (c *Cluster) Shard(primary *Server) []*Server {
	shard := []*Server{primary}
	for _, node := range c.Nodes {
		if role, err := node.Do("ROLE"); err == nil && strings.HasPrefix(role, "slave\n127.0.0.1\n"+strconv.Itoa(primary.port)+"\n") {
			shard = append(shard, node)
		}
	}
	return shard
}

// Owner is the node that serves a key, or nil if none does at the moment.
func (c *Cluster) Owner(key string) *Server {
	for _, node := range c.Nodes {
		if _, err := node.Do("EXISTS", key); err == nil {
			return node // others answer MOVED
		}
	}
	return nil
}

// Move gives the slot of a key to another primary, as redis-cli does when it
// reshards: the keys move one by one, and the slot is served all the time.
func (c *Cluster) Move(key string, to *Server) {
	c.tb.Helper()
	from := c.Owner(key)
	if from == nil || from == to {
		c.tb.Fatalf("redistest: %s cannot be moved from %v to %v", key, from, to)
	}
	slot := from.Must("CLUSTER", "KEYSLOT", key)
	source, target := from.Must("CLUSTER", "MYID"), to.Must("CLUSTER", "MYID")
	to.Must("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Must("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	for {
		key, _, _ := strings.Cut(from.Must("CLUSTER", "GETKEYSINSLOT", slot, "1"), "\n")
		if key == "" {
			break
		}
		from.Must("MIGRATE", "127.0.0.1", strconv.Itoa(to.port), key, "0", "5000")
	}
	to.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	from.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	for _, node := range c.Primaries() {
		node.Must("CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}

// Proxies has all clients that ask the cluster for its layout reach the primaries
// through proxies, and returns these by the primaries' addresses.
func (c *Cluster) Proxies() map[string]*faultproxy.Proxy {
	c.tb.Helper()
	proxies := map[string]*faultproxy.Proxy{}
	for _, node := range c.Primaries() {
		p := faultproxy.Start(c.tb, node.Addr())
		_, port, err := net.SplitHostPort(p.Addr())
		if err != nil {
			c.tb.Fatal(err)
		}
		node.Must("CONFIG", "SET", "cluster-announce-port", port)
		proxies[node.Addr()] = p
	}
	Eventually(c.tb, time.Minute, "all nodes tell of the proxies", func() bool {
		for _, node := range c.Nodes {
			layout := node.Must("CLUSTER", "NODES")
			for _, p := range proxies {
				if !strings.Contains(layout, p.Addr()) {
					return false
				}
			}
		}
		return true
	})
	return proxies
}
