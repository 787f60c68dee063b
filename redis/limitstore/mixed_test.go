package limitstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestMixed takes from several records at once, of which some are decided in
// the fast paths of the script and others are not, alone and in one call with
// takes of each record by itself. Nothing comes back while it runs, so there is
// only one right answer.
func TestMixed(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	limits := []string{"5/d", "5/d fixed", "5/d sliding", "5/30d"}
	for _, separate := range []bool{true, false} {
		l := sluice.New(open(t, redis.Config{Address: server.URL(), Separate: separate}))
		for i, first := range limits {
			for j, second := range limits {
				entity := fmt.Sprint(separate, i, j)
				both := []sluice.Demand{demand(entity+"a", first), demand(entity+"b", second)}
				both[1].Cost = sluice.Tokens(2)
				for n := range 4 {
					var d sluice.Decision
					if err := l.Decide(ctx, &sluice.Take{Demands: both}, &d); err != nil {
						t.Fatalf("%s and %s: %v", first, second, err)
					}
					left := []int64{5 - min(int64(n)+1, 2), 5 - 2*min(int64(n)+1, 2)}
					for k, res := range d.Results {
						if res.Remaining.Whole() != left[k] || d.Allowed != (n < 2) || res.Fits != (n < 2 || k == 0) {
							t.Errorf("%s and %s, take %d: allowed %t, result %d %+v", first, second, n+1, d.Allowed, k, res)
						}
					}
				}
				var wg sync.WaitGroup
				var passed [3]int
				var mu sync.Mutex
				for n := range 24 {
					wg.Go(func() {
						demands := [][]sluice.Demand{both, both[:1], both[1:]}[n%3]
						var d sluice.Decision
						if err := l.Decide(ctx, &sluice.Take{Demands: demands}, &d); err != nil {
							t.Error(err)
						}
						if d.Allowed {
							mu.Lock()
							defer mu.Unlock()
							passed[n%3]++
						}
					})
				}
				wg.Wait()
				if passed != [3]int{0, 3, 0} {
					t.Errorf("%s and %s: %v passed of both, the first and the second, want 0, 3, 0", first, second, passed)
				}
			}
		}
	}
}
