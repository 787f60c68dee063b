package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestNobodyThere says where nobody is.
func TestNobodyThere(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	for _, address := range []string{
		server.URL(), "redis+sentinel://" + server.Addr() + "/main", "redis+cluster://" + server.Addr(),
	} {
		s, err := limitstore.Open(context.Background(), redis.Config{Address: address, Log: quiet})
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", address)
			continue
		}
		if !errors.Is(err, sluice.ErrUnavailable) || !strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("%s: got %q, want that it is unavailable, and where", address, err)
		}
	}
}

// TestRestart kills and restarts the server under load, once without and once
// with its data.
func TestRestart(t *testing.T) {
	for _, test := range []struct {
		name    string
		kept    bool
		options []string
	}{
		{"data lost", false, nil},
		{"data kept", true, []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Start(t, test.options...)
			s := open(t, redis.Config{Address: server.URL(), Timeout: 2 * time.Second})
			w := startLoad(t, sluice.New(s), demand("hot", busy))
			const restarts = 3
			for range restarts {
				w.goesOn(t)
				server.Kill()
				server.Restart()
				t.Logf("takes passed again %s after the restart", w.resumes(t).Round(time.Millisecond))
			}
			w.end()
			w.report(t)
			over, most := w.over(t), restarts*w.demand.Limit.Capacity().Thousandths()
			t.Logf("%s tokens over the bound", sluice.Thousandths(over))
			if test.kept {
				most = 0
			}
			if over > most {
				t.Errorf("%s tokens over the bound, want at most %s", sluice.Thousandths(over), sluice.Thousandths(most))
			}
		})
	}
}

// TestScriptFlush has the server forget the script under load.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	w := startLoad(t, sluice.New(open(t, redis.Config{Address: server.URL()})), demand("hot", busy))
	for range 10 {
		w.goesOn(t)
		server.Must("SCRIPT", "FLUSH")
	}
	w.goesOn(t)
	w.end()
	w.mustNotFail(t)
	if over := w.over(t); over > 0 {
		t.Errorf("%s tokens over the bound", sluice.Thousandths(over))
	}
}

// TestReplica uses the address of a replica, where nothing can be taken, until
// that becomes a primary.
func TestReplica(t *testing.T) {
	replica := redistest.StartReplica(t, redistest.Start(t))
	l := sluice.New(open(t, redis.Config{Address: replica.URL(), Timeout: 500 * time.Millisecond}))
	refusedBy(t, l, "READONLY")
	replica.Must("REPLICAOF", "NO", "ONE")
	works(t, l)
}

// TestRefusedWrites has the server refuse to write. The script decides before
// it writes, so nothing has happened.
func TestRefusedWrites(t *testing.T) {
	server := redistest.Start(t)
	l := sluice.New(open(t, redis.Config{Address: server.URL(), Timeout: 500 * time.Millisecond}))
	for _, test := range []struct{ setting, value, normal, word string }{
		{"maxmemory", "1", "0", "OOM"},
		{"min-replicas-to-write", "1", "0", "NOREPLICAS"},
	} {
		works(t, l)
		server.Must("CONFIG", "SET", test.setting, test.value)
		refused := refusedBy(t, l, test.word)
		server.Must("CONFIG", "SET", test.setting, test.normal)
		works(t, l)
		if got := remaining(t, server.URL(), refused); got != 10*sluice.Token {
			t.Errorf("%s: %s tokens left, want 10", test.setting, sluice.Thousandths(got))
		}
	}
}

// refusedBy takes from a server that answers with an error of that word, and
// returns what it wanted. The store tries until its time is over. If that is in
// the middle of a try, it cannot know how that one ends; then another is made.
func refusedBy(t *testing.T, l *sluice.Limiter, word string) sluice.Demand {
	t.Helper()
	for n := 0; ; n++ {
		wanted := demand(fmt.Sprint(word, n), "10/h")
		_, err := l.Take(context.Background(), wanted)
		if errors.Is(err, sluice.ErrUnknown) && n < 100 {
			continue
		}
		expectError(t, err, sluice.ErrUnavailable)
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say why", err)
		}
		return wanted
	}
}

// TestWakeAcrossClients frees a place through one client while another waits
// for it. Without being told it would wait for ten minutes.
func TestWakeAcrossClients(t *testing.T) {
	server := redistest.Start(t)
	here := sluice.New(open(t, redis.Config{Address: server.URL()}))
	there := sluice.New(open(t, redis.Config{Address: server.URL()}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	take := sluice.Take{Demands: []sluice.Demand{demand("door", "1 concurrent")}, Keep: 10 * time.Minute}
	lease, d, err := here.Acquire(ctx, take)
	if err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	got := make(chan error, 1)
	go func() {
		_, d, err := there.WaitAcquire(ctx, take)
		if err == nil {
			err = d.Err()
		}
		got <- err
	}()
	redistest.Eventually(t, patience, "the other client listens", func() bool {
		return strings.HasSuffix(server.Must("PUBSUB", "NUMSUB", "sluice:1:room"), "\n1")
	})
	select {
	case err := <-got:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	released := time.Now()
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("woken after %s", time.Since(released).Round(time.Microsecond))
	case <-time.After(patience):
		t.Fatal("never woken")
	}
}

// TestEvictionWarning is about a setting with which buckets get lost.
func TestEvictionWarning(t *testing.T) {
	for policy, warned := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		server := redistest.Start(t, "--maxmemory-policy", policy)
		var text strings.Builder
		open(t, redis.Config{Address: server.URL(), Log: slog.New(slog.NewTextHandler(&text, nil))})
		log := text.String()
		if got := strings.Contains(log, "level=WARN") && strings.Contains(log, "maxmemory-policy="+policy); got != warned {
			t.Errorf("%s: logged %q", policy, log)
		}
	}
}
