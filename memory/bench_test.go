package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

func BenchmarkTake(b *testing.B) {
	limit := sluice.Per(1, 6*time.Minute).WithBurst(10_000_000)
	for _, n := range []int{1, 1000, 100_000, 1_000_000} {
		for _, limits := range []int{1, 3} {
			b.Run(fmt.Sprintf("keys=%d/limits=%d", n, limits), func(b *testing.B) {
				benchmarkTake(b, limit, n, limits)
			})
		}
	}
}

func benchmarkTake(b *testing.B, limit sluice.Limit, keys, limits int) {
	l := sluice.New(open(b, memory.Config{}))
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("customer-%015d", i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.07, 1, uint64(keys-1))
		var order [1 << 16]uint32
		for i := range order {
			order[i] = uint32(zipf.Uint64())
		}
		var t sluice.Take
		for i := range limits {
			t.Demands = append(t.Demands, sluice.Demand{Key: sluice.Key{Resource: "api", Limit: fmt.Sprint("limit", i)}, Limit: limit})
		}
		var d sluice.Decision
		for i := 0; pb.Next(); i++ {
			name := names[order[i%len(order)]]
			for j := range t.Demands {
				t.Demands[j].Key.Entity = name
			}
			if err := l.Decide(context.Background(), &t, &d); err != nil {
				b.Fatal(err)
			}
		}
	})
}
