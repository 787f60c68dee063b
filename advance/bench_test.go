package advance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-go/sluice"
)

// BenchmarkHeld is a take that is decided with tokens in hand.
func BenchmarkHeld(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		for _, limits := range []int{1, 3} {
			b.Run(fmt.Sprintf("keys=%d/limits=%d", keys, limits), func(b *testing.B) {
				_, nodes := cluster(b, 1)
				l := sluice.New(nodes[0])
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprintf("customer-%d", i)
				}
				limit := sluice.MustParse("1000000000/s burst 100000000000")
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					var t sluice.Take
					for i := range limits {
						t.Demands = append(t.Demands, sluice.Demand{Key: sluice.Key{Limit: fmt.Sprint(i)}, Limit: limit})
					}
					var d sluice.Decision
					for n := 0; pb.Next(); n++ {
						for i := range t.Demands {
							t.Demands[i].Key.Entity = names[n%keys]
						}
						if err := l.Decide(context.Background(), &t, &d); err != nil || !d.Allowed {
							b.Errorf("%+v, %v", d, err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkDenied is a take that is refused by what is remembered.
func BenchmarkDenied(b *testing.B) {
	const keys = 10_000
	_, nodes := cluster(b, 1)
	l := sluice.New(nodes[0])
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("customer-%d", i)
	}
	limit := sluice.MustParse("1/hour")
	take := func(t *sluice.Take, d *sluice.Decision, n int) {
		t.Demands[0].Key.Entity = names[n%keys]
		if err := l.Decide(context.Background(), t, d); err != nil {
			b.Errorf("%+v, %v", d, err)
		}
	}
	one := func() *sluice.Take {
		return &sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Limit: "rpm"}, Limit: limit}}}
	}
	var d sluice.Decision
	for n := range 2 * keys { // the store refuses the second
		take(one(), &d, n)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		t := one()
		var d sluice.Decision
		for n := 0; pb.Next(); n++ {
			take(t, &d, n)
		}
	})
}
