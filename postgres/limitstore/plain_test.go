package limitstore_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestPlainIsLikeGeneral has the same random takes decided by take_plain_v2 and
// by take_v2, several at once so that they share calls, and compares every field
// of the decisions and of the buckets that are left.
func TestPlainIsLikeGeneral(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	clock := testclock.New(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	address := postgrestest.Database(t)
	plain := open(t, postgres.Config{Address: address, Schema: "plain", Clock: clock.Now})
	general := open(t, postgres.Config{Address: address, Schema: "general", Clock: clock.Now})
	limitstore.TakeGenerally(general)
	limits := []string{
		"10/s burst 20", "100/m", "7/3s burst 5", "1/week burst 1000", "999999/day burst 3", "10/s fixed", "100/m fixed", "3/7s fixed",
	}
	const callers = 6
	for step := range 400 {
		clock.Advance([]time.Duration{0, time.Microsecond, 333 * time.Millisecond, 10 * time.Second, -time.Second, time.Hour, 240 * time.Hour}[random.IntN(7)])
		var takes [callers]sluice.Take
		for caller := range takes {
			// Each caller has buckets of its own, so that the order does not matter.
			for i := range 1 + random.IntN(4) {
				n := 2*i + random.IntN(2)
				d := demand(fmt.Sprint("caller", caller), limits[n], 0)
				d.Key.Limit = fmt.Sprint("limit", n)
				d.Cost = sluice.Thousandths(random.Int64N([]int64{2, 3000, 30_000}[random.IntN(3)]))
				takes[caller].Demands = append(takes[caller].Demands, d)
			}
		}
		var decisions [2][callers]sluice.Decision
		var all sync.WaitGroup
		for side, store := range []sluice.Store{plain, general} {
			limiter := sluice.New(store)
			for caller := range takes {
				all.Go(func() {
					if err := limiter.Decide(t.Context(), &takes[caller], &decisions[side][caller]); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		for caller := range takes {
			if p, g := decisions[0][caller], decisions[1][caller]; !reflect.DeepEqual(p, g) {
				t.Fatalf("step %d: %+v\nplain   %+v\ngeneral %+v", step, takes[caller], p, g)
			}
		}
		if step%20 == 0 {
			p, err := plain.List(t.Context(), sluice.Query{Max: 1000})
			if err != nil {
				t.Fatal(err)
			}
			g, err := general.List(t.Context(), sluice.Query{Max: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p, g) {
				t.Fatalf("step %d:\nplain   %+v\ngeneral %+v", step, p, g)
			}
		}
	}
	if limitstore.Uneven(plain) {
		t.Error("some takes of the plain side were decided by take_v2")
	}
}
