package metrics_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// sharedLog is what several nodes write.
type sharedLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan struct{}
}

func (l *sharedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.lines <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// threeNodes hold tokens of what open opens ahead of need, and watch how full
// buckets are. They write to one log.
func threeNodes(t *testing.T, open func() sluice.Store) (nodes []*sluice.Limiter, log *sharedLog) {
	t.Helper()
	log = &sharedLog{lines: make(chan struct{}, 1)}
	for range 3 {
		u, err := metrics.NewUtilization(catalog.Thresholds{}, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := advance.New(open(), advance.Config{Log: quiet, Heard: u.Heard})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ahead.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, sluice.New(ahead, sluice.WithObserver(u)))
	}
	return nodes, log
}

// inTurn takes n in all.
func inTurn(t *testing.T, nodes []*sluice.Limiter, limit string, n int) {
	t.Helper()
	for i := range n {
		d, err := nodes[i%len(nodes)].Take(context.Background(), sluice.Demand{
			Key: sluice.Key{Entity: "acme", Resource: "mail", Limit: limit}, Limit: sluice.MustParse(limit),
		})
		if err != nil || !d.Allowed {
			t.Fatalf("take %d: %+v, %v", i, d, err)
		}
	}
}

const nearMessage = `level=WARN msg="bucket near its limit" alarm=warning utilization=78 entity=****e`

// TestNodesTogetherRaiseAnAlarm: no node has spent a third of the limit, and
// none comes again. Whoever reports last what it spent hears the sum.
func TestNodesTogetherRaiseAnAlarm(t *testing.T) {
	server := redistest.Start(t)
	nodes, log := threeNodes(t, func() sluice.Store {
		store, err := limitstore.Open(t.Context(), redis.Config{Address: server.URL(), Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
	inTurn(t, nodes, "1000/day", 780)
	for !strings.Contains(log.String(), nearMessage) {
		select {
		case <-log.lines:
		case <-time.After(time.Minute):
			t.Fatalf("nobody says that 780 of 1000 are used:\n%s", log)
		}
	}
}

// TestNodesTogetherAreBelowTheirLimit: what they hold raises no alarm, and what
// they have used does within a hold's life.
func TestNodesTogetherAreBelowTheirLimit(t *testing.T) {
	for _, limit := range []string{"1000/day", "1000/day UTC", "1000/day fixed"} {
		synctest.Test(t, func(t *testing.T) {
			store, err := memory.Open(memory.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			nodes, log := threeNodes(t, func() sluice.Store { return unclosed{store} })
			inTurn(t, nodes, limit, 650)
			time.Sleep(20 * time.Second)
			if log.String() != "" {
				t.Errorf("%s: an alarm at 65 %%:\n%s", limit, log)
			}
			inTurn(t, nodes, limit, 130)
			time.Sleep(10 * time.Second)
			if !strings.Contains(log.String(), "alarm=warning utilization=7") {
				t.Errorf("%s: no alarm at 78 %%:\n%s", limit, log)
			}
		})
	}
}

type unclosed struct{ sluice.Store }

func (unclosed) Close() error { return nil }
