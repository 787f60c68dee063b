package advance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/storetest"
)

// faulty is a store on the other end of a bad network: calls take their time
// on the way there and back, and sometimes get lost on either.
type faulty struct {
	sluice.Store
	mu   sync.Mutex
	rand *rand.Rand
	loss float64
}

func (f *faulty) travel() (lost bool) {
	f.mu.Lock()
	delay := time.Duration(f.rand.ExpFloat64() * float64(2*time.Millisecond))
	if f.rand.IntN(200) == 0 {
		delay += time.Duration(f.rand.IntN(3000)) * time.Millisecond
	}
	lost = f.rand.Float64() < f.loss
	f.mu.Unlock()
	time.Sleep(delay)
	return lost
}

// crash lets nothing get out any more.
func (f *faulty) crash() {
	f.mu.Lock()
	f.loss = 1
	f.mu.Unlock()
}

func (f *faulty) call(do func() error) error {
	if f.travel() {
		return fmt.Errorf("lost on the way there: %w", sluice.ErrUnavailable)
	}
	err := do()
	if f.travel() {
		return fmt.Errorf("lost on the way back: %w", sluice.ErrUnknown)
	}
	return err
}

func (f *faulty) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	return f.call(func() error { return f.Store.Take(ctx, t, d) })
}

func (f *faulty) Hold(ctx context.Context, r []sluice.HoldRequest, g []sluice.Grant) error {
	return f.call(func() error { return f.Store.Hold(ctx, r, g) })
}

func (f *faulty) Return(ctx context.Context, r []sluice.HoldReturn) error {
	return f.call(func() error { return f.Store.Return(ctx, r) })
}

func (f *faulty) Close() error { return nil }

// TestBoundHoldsWhateverHappens runs nodes on one store for two minutes, over
// slow and lossy connections. Some crash, and new ones come; some stop for a
// while, which is what their callers and holds feel like after a SIGSTOP.
func TestBoundHoldsWhateverHappens(t *testing.T) {
	for _, limit := range []string{"100/s burst 200", "2000/s burst 500", "500/s burst 5000", "300/s fixed", "1000/5s fixed"} {
		for _, loss := range []float64{0, 0.02} {
			t.Run(fmt.Sprintf("%s, loss %v", limit, loss), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { abuse(t, sluice.MustParse(limit), loss) })
			})
		}
	}
}

func abuse(t *testing.T, limit sluice.Limit, loss float64) {
	store, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const length = 2 * time.Minute
	start := time.Now()
	var mu sync.Mutex
	var history storetest.History
	var wg sync.WaitGroup
	for n := range 5 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			for time.Since(start) < length {
				inner := &faulty{Store: store, rand: rand.New(rand.NewPCG(uint64(n), r.Uint64())), loss: loss}
				node, err := advance.New(inner, advance.Config{Log: quiet})
				if err != nil {
					t.Error(err)
					return
				}
				life := time.Duration(r.IntN(30)+1) * time.Second
				events := callers(node, limit, min(life, length-time.Since(start)), r.Uint64())
				mu.Lock()
				history.Events = append(history.Events, events...)
				mu.Unlock()
				if r.IntN(3) == 0 {
					inner.crash()
				}
				node.Close()
			}
		})
	}
	wg.Wait()
	report, err := history.Report(limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events, %.1f %% of the bound, worst %s", len(history.Events), 100*report.Used(), report.Worst)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Used() < 0.5 {
		t.Errorf("only %.1f %% of the bound was admitted", 100*report.Used())
	}
}

// callers ask for tokens until life is over and answer what they got. An
// unknown take is not counted: it may or may not have been.
func callers(node *advance.Store, limit sluice.Limit, life time.Duration, seed uint64) []storetest.Event {
	l := sluice.New(node)
	start := time.Now()
	var mu sync.Mutex
	var events []storetest.Event
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			for time.Since(start) < life {
				cost := int64(r.IntN(3)+1) * sluice.Token
				if r.IntN(50) == 0 {
					cost = limit.Capacity().Thousandths() / 3
				}
				call := time.Now()
				d, err := l.Take(context.Background(), sluice.Demand{Key: sluice.Key{Entity: "hot"}, Limit: limit, Cost: sluice.Thousandths(cost)})
				if err == nil && d.Allowed {
					mu.Lock()
					events = append(events, storetest.Event{Call: call.UnixMicro(), Return: time.Now().UnixMicro(), Amount: cost})
					mu.Unlock()
				} else if err != nil && !errors.Is(err, sluice.ErrUnknown) && !errors.Is(err, sluice.ErrUnavailable) {
					panic(err)
				}
				pause := time.Duration(r.ExpFloat64() * float64(8*time.Millisecond))
				if r.IntN(5000) == 0 {
					pause += 12 * time.Second
				}
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	return events
}
