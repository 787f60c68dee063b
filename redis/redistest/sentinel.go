package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sentinels are three Sentinels that watch over a primary and two replicas.
type Sentinels struct {
	Nodes     []*Server // the first is the primary at the start
	Sentinels []*Server
	tb        testing.TB
}

const master = "main"

// StartSentinels starts all six, and waits until everyone knows everyone.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{tb: tb, Nodes: []*Server{Start(tb)}}
	primary := s.Nodes[0]
	for range 2 {
		s.Nodes = append(s.Nodes, StartReplica(tb, primary))
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, primary))
	}
	Eventually(tb, time.Minute, "the Sentinels know each other and the replicas", func() bool {
		for _, sentinel := range s.Sentinels {
			if field(sentinel, "num-slaves") != "2" || field(sentinel, "num-other-sentinels") != "2" {
				return false
			}
		}
		return true
	})
	return s
}

// StartReplica starts a replica of primary and waits until it follows.
func StartReplica(tb testing.TB, primary *Server, options ...string) *Server {
	tb.Helper()
	replica := Start(tb, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.port)}, options...)...)
	Eventually(tb, time.Minute, "the replica follows its primary", replica.follows)
	Eventually(tb, time.Minute, "the primary counts on its replica", primary.followed)
	return replica
}

func (s *Server) followed() bool {
	info, err := s.Do("INFO", "replication")
	return err == nil && strings.Contains(info, "state=online")
}

func (s *Server) follows() bool {
	info, err := s.Do("INFO", "replication")
	return err == nil && strings.Contains(info, "master_link_status:up")
}

func startSentinel(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	s := newServer(tb, "redis-sentinel")
	config := filepath.Join(s.dir, "sentinel.conf") // which it writes to
	text := fmt.Sprintf(`port %d
bind 127.0.0.1
dir %s
sentinel monitor %s 127.0.0.1 %d 2
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 3000
`, s.port, s.dir, master, primary.port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = []string{config}
	s.Restart()
	return s
}

// field is one of those that a Sentinel has of the primary.
func field(sentinel *Server, name string) string {
	text, err := sentinel.Do("SENTINEL", "MASTER", master)
	if err != nil {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		if lines[i] == name {
			return lines[i+1]
		}
	}
	return ""
}

// URL is the address as package redis takes it.
func (s *Sentinels) URL() string {
	hosts := make([]string, len(s.Sentinels))
	for i, sentinel := range s.Sentinels {
		hosts[i] = sentinel.Addr()
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + master
}

// Primary is the one that the Sentinels take for it.
func (s *Sentinels) Primary() *Server {
	s.tb.Helper()
	addr := net.JoinHostPort(field(s.Sentinels[0], "ip"), field(s.Sentinels[0], "port"))
	for _, node := range s.Nodes {
		if node.Addr() == addr {
			return node
		}
	}
	s.tb.Fatalf("redistest: no node is the primary %s", addr)
	return nil
}

// Failovers is how many there have been.
func (s *Sentinels) Failovers() int {
	n := 0
	for _, sentinel := range s.Sentinels {
		epoch, _ := strconv.Atoi(field(sentinel, "config-epoch"))
		n = max(n, epoch)
	}
	return n
}
