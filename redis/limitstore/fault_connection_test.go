package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

func expectError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("got %v, want %v", err, want)
	}
	other := map[error]error{sluice.ErrUnknown: sluice.ErrUnavailable, sluice.ErrUnavailable: sluice.ErrUnknown}[want]
	if errors.Is(err, other) {
		tb.Fatalf("%v is also %v", err, other)
	}
}

// scriptCalls is how many times the server has been asked to run a script.
func scriptCalls(server *redistest.Server) (n int) {
	for line := range strings.Lines(server.Must("INFO", "commandstats")) {
		var calls int
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d", &calls); err == nil {
			n += calls
		}
	}
	return n
}

// TestTimeoutAfterTheWork loses the answers of a server that does its work.
// The outcome is unknown, and nothing is sent twice.
func TestTimeoutAfterTheWork(t *testing.T) {
	server := redistest.Start(t)
	p := faultproxy.Start(t, server.Addr())
	l := sluice.New(open(t, redis.Config{Address: "redis://" + p.Addr(), Timeout: 700 * time.Millisecond}))
	ctx := context.Background()
	const limit = "100/h"
	lease := func(id string) sluice.Take {
		return sluice.Take{Demands: []sluice.Demand{demand("lease", limit)}, ID: id}
	}
	if _, _, err := l.Acquire(ctx, lease("open")); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []struct {
		name string
		call func() error
	}{
		{"take", func() error { _, err := l.Take(ctx, demand("plain", limit)); return err }},
		{"acquire", func() error { _, _, err := l.Acquire(ctx, lease("unheard")); return err }},
		{"settle", func() error {
			_, err := l.Lease("open").Adjust(ctx, sluice.LimitCost{Limit: "rps", Cost: sluice.Tokens(3)})
			return err
		}},
		{"adjust", func() error { _, err := l.Adjust(ctx, demand("adjusted", limit)); return err }},
	} {
		works(t, l) // the call itself is what gets lost
		before := scriptCalls(server)
		p.LoseAnswers(true)
		err := verb.call()
		if !errors.Is(err, sluice.ErrUnknown) || errors.Is(err, sluice.ErrUnavailable) {
			t.Errorf("%s: got %v, want an unknown outcome", verb.name, err)
		}
		if n := scriptCalls(server) - before; n != 1 {
			t.Errorf("%s: sent %d times", verb.name, n)
		}
		p.Cut() // what has lost an answer would take the next one for it
		p.LoseAnswers(false)
	}
	// Adjusting by 0 changes nothing.
	for entity, want := range map[string]int64{"plain": 99, "lease": 96, "adjusted": 100} {
		if got := sluice.Thousandths(remaining(t, server.URL(), demand(entity, limit))).Whole(); got != want {
			t.Errorf("%s: %d tokens left, want %d", entity, got, want)
		}
	}
}

// TestLateAnswers has answers come after their callers have left. They are
// not taken for the answers to later calls.
func TestLateAnswers(t *testing.T) {
	server := redistest.Start(t)
	p := faultproxy.Start(t, server.Addr())
	l := sluice.New(open(t, redis.Config{Address: "redis://" + p.Addr(), Timeout: 500 * time.Millisecond}))
	ctx := context.Background()
	for round := range 3 {
		works(t, l)
		p.DelayAnswers(800 * time.Millisecond)
		_, err := l.Take(ctx, demand("slow", "100/h"))
		expectError(t, err, sluice.ErrUnknown)
		p.DelayAnswers(0)
		entity := fmt.Sprint("after ", round)
		var d sluice.Decision
		redistest.Eventually(t, patience, "the store answers", func() bool {
			d, err = l.Peek(ctx, demand(entity, "7/h"))
			return err == nil
		})
		if d.Results[0].Remaining.Thousandths() != 7*sluice.Token {
			t.Fatalf("%s left in a full bucket of 7: this is the answer to something else", d.Results[0].Remaining)
		}
	}
	if got := sluice.Thousandths(remaining(t, server.URL(), demand("slow", "100/h"))).Whole(); got != 97 {
		t.Errorf("%d tokens left after three takes of unknown outcome, want 97", got)
	}
}

// refilled is more than comes back to a slow bucket during a test.
const refilled = 20

// TestCutConnections cuts all connections again and again while many take. No
// take is lost without an error and none is counted twice.
func TestCutConnections(t *testing.T) {
	for _, separate := range []bool{false, true} {
		t.Run(fmt.Sprintf("separate=%t", separate), func(t *testing.T) {
			server := redistest.Start(t)
			p := faultproxy.Start(t, server.Addr())
			s := open(t, redis.Config{Address: "redis://" + p.Addr(), Separate: separate})
			w := startLoad(t, sluice.New(s), demand("hot", slow))
			for range 10 {
				w.goesOn(t)
				p.Cut()
			}
			w.goesOn(t)
			w.end()
			w.report(t)
			if lost := w.lost(t, server.URL()); lost > refilled {
				t.Errorf("%d takes passed that the store does not know of", lost)
			}
		})
	}
}
