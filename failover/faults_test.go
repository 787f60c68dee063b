package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// fault is what is wrong with a store.
type fault int32

const (
	none    fault = iota
	refuses       // nothing reaches it
	hangs         // it never answers
	deaf          // it does what it is asked, and never answers
	cuts          // it drops the connection
	babbles       // it answers nonsense
)

var errNonsense = errors.New("WRONGTYPE operation against a key")

// faulty is a real store with faults to be switched on.
type faulty struct {
	*memory.Store
	fault atomic.Int32
	calls atomic.Int64 // that came through, with and without success
	takes atomic.Int64
	hooks func(t *sluice.Take)

	// checked lets the health check of the failover store through. In most tests it
	// says nothing, so that only callers change the state.
	checked bool
	checks  atomic.Int64
}

func isCheck(t *sluice.Take) bool { return t.Demands[0].Key.Limit == "failover check" }

func (f *faulty) set(to fault) { f.fault.Store(int32(to)) }

func (f *faulty) fail(ctx context.Context, do func() error) error {
	f.calls.Add(1)
	switch fault(f.fault.Load()) {
	case refuses:
		return fmt.Errorf("dial: connection refused: %w", sluice.ErrUnavailable)
	case hangs:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", sluice.ErrUnknown, ctx.Err())
	case deaf:
		if err := do(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case cuts:
		return fmt.Errorf("read: connection reset: %w", sluice.ErrUnknown)
	case babbles:
		return errNonsense
	}
	return do()
}

func (f *faulty) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if isCheck(t) {
		f.checks.Add(1)
		if !f.checked {
			return errors.ErrUnsupported
		}
	}
	f.takes.Add(1)
	if f.hooks != nil {
		f.hooks(t)
	}
	return f.fail(ctx, func() error { return f.Store.Take(ctx, t, d) })
}

func (f *faulty) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	return f.fail(ctx, func() error { return f.Store.Adjust(ctx, changes, d) })
}

func (f *faulty) Settle(ctx context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	return f.fail(ctx, func() error { return f.Store.Settle(ctx, s, d) })
}

func (f *faulty) Reset(ctx context.Context, keys []sluice.Key) error {
	return f.fail(ctx, func() error { return f.Store.Reset(ctx, keys) })
}

func (f *faulty) Hold(ctx context.Context, r []sluice.HoldRequest, g []sluice.Grant) error {
	return f.fail(ctx, func() error { return f.Store.Hold(ctx, r, g) })
}

func (f *faulty) Return(ctx context.Context, r []sluice.HoldReturn) error {
	return f.fail(ctx, func() error { return f.Store.Return(ctx, r) })
}

func (f *faulty) List(ctx context.Context, q sluice.Query) (page sluice.Page, err error) {
	err = f.fail(ctx, func() error { page, err = f.Store.List(ctx, q); return err })
	return page, err
}

// open returns a limiter on a failover store on a store with faults. Unless config
// has quotas, they are the usual ones, but bridge no outage.
func open(tb testing.TB, config failover.Config) (*sluice.Limiter, *failover.Store, *faulty) {
	tb.Helper()
	if config.Quotas == nil {
		config.Quotas = failover.DefaultQuotas()
		for tier, q := range config.Quotas {
			q.Bridge = 0
			config.Quotas[tier] = q
		}
	}
	inner, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	if config.Log == nil {
		config.Log = quiet
	}
	f := &faulty{Store: inner}
	s, err := failover.New(f, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return sluice.New(s), s, f
}

func demand(entity string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: entity, Resource: "api", Limit: "rpm"}, Limit: sluice.MustParse("1000000/s")}
}

func critical(entity string) sluice.Demand {
	dm := demand(entity)
	dm.Critical = true
	return dm
}

// decide takes one of the entity's tokens for a caller of that tier.
func decide(tb testing.TB, l *sluice.Limiter, tier string, demands ...sluice.Demand) sluice.Decision {
	tb.Helper()
	var d sluice.Decision
	if err := l.Decide(context.Background(), &sluice.Take{Demands: demands, Tier: tier}, &d); err != nil {
		tb.Fatalf("a caller got an error: %v", err)
	}
	for i, r := range d.Results { // a local quota says nothing about the limit
		if local := d.Source >= sluice.Degraded; r.Unknown != local || local && (r.Remaining.Thousandths() != 0 || r.Free.Thousandths() != 0 || r.ResetAfter != 0) {
			tb.Fatalf("result %d of a decision from %s: %+v", i, d.Source, r)
		}
	}
	return d
}

// spend takes until it is refused, and returns how many passed.
func spend(tb testing.TB, l *sluice.Limiter, tier string, dm sluice.Demand) (n int) {
	tb.Helper()
	for decide(tb, l, tier, dm).Allowed {
		n++
	}
	return n
}

// breakOpen makes the store fail until the breaker is open.
func breakOpen(tb testing.TB, l *sluice.Limiter, s *failover.Store, f *faulty) {
	tb.Helper()
	f.set(refuses)
	for range 100 {
		decide(tb, l, "", critical("breaker")) // asked in every phase
		if s.State() == failover.Open {
			return
		}
	}
	tb.Fatalf("still %s after 100 failures", s.State())
}

// wantState fails the test if the store is in another state.
func wantState(tb testing.TB, s *failover.Store, want failover.State) {
	tb.Helper()
	if got := s.State(); got != want {
		tb.Fatalf("state %s, want %s", got, want)
	}
}
