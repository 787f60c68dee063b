package limitstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestTimeoutAfterTheWork loses the answers of a server that does its work.
// The outcome is unknown, and nothing is sent twice.
func TestTimeoutAfterTheWork(t *testing.T) {
	address := postgrestest.Database(t)
	p, through := postgrestest.Proxy(t, address)
	s := open(t, postgres.Config{Address: through, Timeout: 500 * time.Millisecond})
	l := sluice.New(s)
	ctx := context.Background()
	plain := demand("plain", "100/hour", 1)
	take(t, s, plain, true) // so that the connection is up

	// unheard makes a call whose answer is lost. On a slow machine it may not
	// get as far as sending it, which the error tells; then it is tried again.
	unheard := func(call func() error) {
		t.Helper()
		var err error
		for range 20 {
			if _, err := l.Peek(ctx, plain); err != nil {
				t.Fatal(err)
			}
			p.LoseAnswers(true)
			err = call()
			p.LoseAnswers(false)
			if errors.Is(err, sluice.ErrUnknown) || !errors.Is(err, sluice.ErrUnavailable) {
				break
			}
		}
		postgrestest.WantError(t, err, sluice.ErrUnknown)
	}
	unheard(func() error { _, err := l.Take(ctx, plain); return err })

	// Each call is first made with the answer heard, so that the connection
	// is up and the statement known: the call itself is what gets lost.
	lease := func(id string) sluice.Take {
		return sluice.Take{Demands: []sluice.Demand{demand("lease", "100/hour", 1)}, ID: id}
	}
	for _, call := range []func(string) error{
		func(id string) error { _, _, err := l.Acquire(ctx, lease(id)); return err },
		func(id string) error {
			_, err := l.Lease(id).Adjust(ctx, sluice.LimitCost{Limit: "rps", Cost: sluice.Tokens(3)})
			return err
		},
		func(string) error { _, err := l.Adjust(ctx, demand("adjusted", "100/hour", 1)); return err },
		func(string) error { return l.Reset(ctx, demand("reset", "100/hour", 1).Key) },
	} {
		if err := call("heard"); err != nil {
			t.Fatal(err)
		}
		unheard(func() error { return call("unheard") })
	}

	beside := open(t, postgres.Config{Address: address})
	for entity, want := range map[string]int64{"plain": 2, "lease": 6, "adjusted": 2} {
		d := take(t, beside, demand(entity, "100/hour", 1), true)
		if got := d.Results[0].Remaining.Whole(); got != 100-want-1 {
			t.Errorf("%s: %d tokens left, want %d", entity, got, sluice.Thousandths(100-want-1))
		}
	}
}

// TestCutConnections cuts all connections again and again while many take. No
// take is lost without an error and none is counted twice.
func TestCutConnections(t *testing.T) {
	address := postgrestest.Database(t)
	p, through := postgrestest.Proxy(t, address)
	s := open(t, postgres.Config{Address: through, Timeout: 5 * time.Second})
	l := sluice.New(s)
	var passed, unknown, unavailable atomic.Int64
	var takers sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		takers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d, err := l.Take(context.Background(), demand("a", slow, 1))
				switch {
				case errors.Is(err, sluice.ErrUnknown):
					unknown.Add(1)
				case errors.Is(err, sluice.ErrUnavailable):
					unavailable.Add(1)
				case err != nil || !d.Allowed:
					t.Errorf("allowed is %t, error %v", d.Allowed, err)
					return
				default:
					passed.Add(1)
				}
			}
		})
	}
	for range 20 {
		before := passed.Load()
		postgrestest.Eventually(t, "takes pass again", func() bool { return passed.Load() > before+20 })
		p.Cut()
	}
	close(stop)
	takers.Wait()
	beside := open(t, postgres.Config{Address: address})
	got, least := (consumed(t, beside) / sluice.Token), passed.Load()
	t.Logf("%d passed, %d unknown, %d unavailable; %d consumed", least, unknown.Load(), unavailable.Load(), got)
	if got < least || got > least+unknown.Load() {
		t.Errorf("%d consumed, want %d to %d", got, least, least+unknown.Load())
	}
}

// TestRestart stops and starts PostgreSQL under load, once in order and once
// as in a crash. Service resumes by itself, and what was acknowledged is
// still there.
func TestRestart(t *testing.T) {
	server := postgrestest.Start(t, "fsync=on")
	address := server.Database(t)
	s := open(t, postgres.Config{Address: address, Timeout: 2 * time.Second})
	l := sluice.New(s)
	var passed, unknown, unavailable atomic.Int64
	var takers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		takers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d, err := l.Take(context.Background(), demand("a", slow, 1))
				switch {
				case errors.Is(err, sluice.ErrUnknown):
					unknown.Add(1)
				case errors.Is(err, sluice.ErrUnavailable):
					unavailable.Add(1)
				case err != nil || !d.Allowed:
					t.Errorf("allowed is %t, error %v", d.Allowed, err)
					return
				default:
					passed.Add(1)
				}
			}
		})
	}
	for _, end := range []struct {
		name string
		stop func() error
	}{{"restart", server.Stop}, {"crash", server.Kill}} {
		before := passed.Load()
		postgrestest.Eventually(t, "takes pass", func() bool { return passed.Load() > before+50 })
		stopped := time.Now()
		if err := end.stop(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		before = passed.Load()
		postgrestest.Eventually(t, "takes pass again", func() bool { return passed.Load() > before })
		t.Logf("%s: takes passed again %s after the stop, %s after the server was up",
			end.name, time.Since(stopped).Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
	}
	close(stop)
	takers.Wait()
	got, least := (consumed(t, s) / sluice.Token), passed.Load()
	t.Logf("%d passed, %d unknown, %d unavailable; %d consumed", least, unknown.Load(), unavailable.Load(), got)
	if got < least || got > least+unknown.Load() {
		t.Errorf("%d consumed, want %d to %d", got, least, least+unknown.Load())
	}
}

// TestContexts gives up before and while a take waits.
func TestContexts(t *testing.T) {
	address := postgrestest.Database(t)
	p, through := postgrestest.Proxy(t, address)
	s := open(t, postgres.Config{Address: through, Timeout: 2 * time.Second})
	l := sluice.New(s)
	take(t, s, demand("a", "10/hour", 1), true)

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Take(ended, demand("a", "10/hour", 1)); !errors.Is(err, context.Canceled) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("with an ended context: %v", err)
	}

	p.LoseAnswers(true)
	sent, queued := make(chan error, 1), make(chan error, 1)
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	go func() {
		_, err := l.Take(short, demand("a", "10/hour", 1))
		sent <- err
	}()
	postgrestest.Eventually(t, "the first take is under way", func() bool { return p.Lost() > 0 })
	go func() {
		_, err := l.Take(short, demand("a", "10/hour", 1))
		queued <- err
	}()
	postgrestest.WantError(t, <-sent, sluice.ErrUnknown)
	if err := <-queued; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("the take that was not sent: %v", err)
	}
	p.LoseAnswers(false)
}
