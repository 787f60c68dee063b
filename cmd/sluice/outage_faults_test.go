package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
)

// outage is a way in which a store can be away.
type outage struct {
	name, what string
	lasts      time.Duration // from fail to mend; 0 if it mends itself
	short      bool          // in make test, too
	start      func(*testing.T) *fault
}

// fault is a store that fails and is mended when it is told to.
type fault struct {
	store      string // the address
	fail, mend func()
	nodes      []*process // that use it
}

var outages = []outage{
	{"stall-100ms", "Redis stalls for 0.1 s", 100 * time.Millisecond, true, stalled},
	{"stall-400ms", "Redis stalls for 0.4 s", 400 * time.Millisecond, true, stalled},
	{"stall-2s", "Redis stalls for 2 s", 2 * time.Second, true, stalled},
	{"stall-20s", "Redis stalls for 20 s", 20 * time.Second, false, stalled},
	{"kill", "Redis is killed, and started again after 20 s", 20 * time.Second, false, killed},
	{"cut", "connections to Redis are cut over and over for 1 s", time.Second, true, cut},
	{"half-open", "answers of Redis are lost for 10 s, on connections that stay", 10 * time.Second, false, halfOpen},
	{"slow", "Redis takes 20 ms instead of 2 for 10 s", 10 * time.Second, false, slow},
	{"full-redis", "the disk of Redis is full for 10 s", 10 * time.Second, false, fullRedis},
	{"sentinel", "the primary dies, and Sentinel promotes a replica", 0, false, sentinel},
	{"cluster", "a primary of the Cluster dies, and its replica takes over", 0, false, clustered},
	{"shard", "one of three shards of the Cluster is dead for 10 s", 10 * time.Second, false, deadShard},
	{"record", "the record of one caller cannot be read, until it is reset after 2 s", 2 * time.Second, true, badRecord},
	{"postgres-stall", "PostgreSQL stalls for 2 s", 2 * time.Second, false, postgresStalled},
	{"postgres-kill", "PostgreSQL is killed, and started again after 10 s", 10 * time.Second, false, postgresKilled},
	{"postgres-full", "the disk of PostgreSQL is full for 10 s", 10 * time.Second, false, fullPostgres},
	{"postgres-connections", "PostgreSQL has no connection to spare for 10 s", 10 * time.Second, false, outOfConnections},
}

func stalled(t *testing.T) *fault {
	s := redistest.Start(t)
	return &fault{store: s.URL(), fail: s.Pause, mend: s.Resume}
}

// killed keeps a log of what it did, as a Redis that must not forget does.
func killed(t *testing.T) *fault {
	s := redistest.Start(t, "--appendonly", "yes")
	return &fault{store: s.URL(), fail: s.Kill, mend: s.Restart}
}

func redisProxy(t *testing.T) (*faultproxy.Proxy, string) {
	p := faultproxy.Start(t, redistest.Start(t).Addr())
	return p, "redis://" + p.Addr()
}

func cut(t *testing.T) *fault {
	p, at := redisProxy(t)
	ctx, stop := context.WithCancel(t.Context())
	return &fault{store: at, fail: func() {
		go func() {
			for ctx.Err() == nil {
				p.Cut()
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}, mend: stop}
}

func halfOpen(t *testing.T) *fault {
	p, at := redisProxy(t)
	return &fault{store: at, fail: func() { p.LoseAnswers(true) }, mend: func() {
		p.Cut() // as the other end does with connections it has forgotten
		p.LoseAnswers(false)
	}}
}

func slow(t *testing.T) *fault {
	p, at := redisProxy(t)
	usual := func() { p.DelayAnswers(2 * time.Millisecond) }
	usual()
	return &fault{store: at, fail: func() { p.DelayAnswers(20 * time.Millisecond) }, mend: usual}
}

// disk mounts a small disk, which needs root, and returns functions that fill it and
// make room again.
func disk(t *testing.T, size string) (dir string, fill, clear func()) {
	dir, err := os.MkdirTemp("", "sluice-disk-") // which other users can get to
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0755"); err != nil {
		t.Fatalf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		os.Remove(dir)
	})
	ballast := filepath.Join(dir, "ballast")
	return dir, func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
	}, func() { os.Remove(ballast) }
}

func fullRedis(t *testing.T) *fault {
	dir, fill, empty := disk(t, "64m")
	s := redistest.Start(t, "--appendonly", "yes", "--dir", dir)
	return &fault{store: s.URL(), fail: fill, mend: empty}
}

func sentinel(t *testing.T) *fault {
	s := redistest.StartSentinels(t)
	return &fault{store: s.URL(), fail: func() { s.Primary().Kill() }, mend: func() {}}
}

func clustered(t *testing.T) *fault {
	c := redistest.StartCluster(t)
	return &fault{store: c.URL(), fail: func() { c.Primaries()[0].Kill() }, mend: func() {}}
}

// deadShard kills a primary and its replica. The others go on.
func deadShard(t *testing.T) *fault {
	c := redistest.StartCluster(t)
	for _, node := range c.Nodes {
		node.Must("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	dead := c.Shard(c.Primaries()[0])
	return &fault{store: c.URL(), fail: func() {
		for _, node := range dead {
			node.Kill()
		}
	}, mend: func() {
		for _, node := range dead {
			node.Restart()
		}
	}}
}

// badRecord makes the record of one caller unreadable, until it is reset
// through a node.
func badRecord(t *testing.T) *fault {
	s := redistest.Start(t)
	f := &fault{store: s.URL()}
	f.fail = func() {
		s.Must("SET", s.Must("KEYS", "*|"+entity(0, 0)+"|*"), "of another type")
	}
	f.mend = func() {
		body := fmt.Sprintf(`{"entity":%q,"limits":{"rate":%q}}`, entity(0, 0), outageCallers[0].limit)
		response, err := http.Post(f.nodes[0].url()+"/v1/reset", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		if response.Body.Close(); response.StatusCode != http.StatusNoContent {
			t.Errorf("reset: %s", response.Status)
		}
	}
	return f
}

func postgresStalled(t *testing.T) *fault {
	p, at := postgrestest.Proxy(t, postgrestest.Start(t).Database(t))
	var resume func()
	return &fault{store: at, fail: func() { resume = p.Stall() }, mend: func() { resume() }}
}

func postgresKilled(t *testing.T) *fault {
	s := postgrestest.Start(t)
	return &fault{store: s.Database(t), fail: func() { s.Kill() }, mend: func() { restarted(t, s) }}
}

func restarted(t *testing.T, s *postgrestest.Server) {
	if err := s.Start(); err != nil {
		t.Error(err)
	}
}

// fullPostgres has the database need a new file soon after its disk is full. A
// database that gives up is started again once there is room.
func fullPostgres(t *testing.T) *fault {
	dir, fill, empty := disk(t, "256m")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	others := os.Getenv("TMPDIR")
	t.Setenv("TMPDIR", dir)
	s := postgrestest.Start(t, "max_wal_size=32MB", "min_wal_size=32MB")
	t.Setenv("TMPDIR", others) // the nodes have room
	return &fault{store: s.Database(t), fail: func() {
		fill()
		for range 3 {
			s.Exec("postgres", "SELECT pg_switch_wal()") //nolint:errcheck // it may be the end of it
		}
	}, mend: func() {
		empty()
		if s.Exec("postgres", "SELECT 1") != nil {
			s.Kill() //nolint:errcheck // it has ended by itself, or soon will have
			restarted(t, s)
		}
	}}
}

// outOfConnections takes every connection there is.
func outOfConnections(t *testing.T) *fault {
	s := postgrestest.Start(t, "max_connections=50")
	at := s.Database(t)
	var taken []*pgx.Conn
	return &fault{store: at, fail: func() {
		first := postgrestest.Connect(t, at)
		for len(taken) < 49 {
			if c, err := pgx.Connect(t.Context(), at); err == nil {
				taken = append(taken, c)
				continue
			}
			// The connections of this process remain.
			first.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> '' AND pid <> pg_backend_pid()`) //nolint:errcheck // tried again
		}
	}, mend: func() {
		for _, c := range taken {
			c.Close(t.Context()) //nolint:errcheck // nothing was written
		}
	}}
}
