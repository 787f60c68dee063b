package inprocess

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/bench/keys"
)

// These are for profiles: go test -bench Take/many -cpuprofile cpu.out.
// Comparisons belong into the suite, where contenders take turns.
func BenchmarkTake(b *testing.B) {
	const many = 1_000_000
	zipf := keys.Each(runtime.GOMAXPROCS(0), func(seed uint64) keys.Sequence { return keys.Zipf(many, 1<<20, seed) })
	one := keys.Each(runtime.GOMAXPROCS(0), func(uint64) keys.Sequence { return keys.All(1) })
	for _, c := range []struct {
		name      string
		open      func(limit, int) (*instance, error)
		limit     limit
		sequences []keys.Sequence
	}{
		{"one", openSluice, oneKey, one},
		{"many", openSluice, generous, zipf},
		{"three", openSluiceThree, generous, zipf},
		{"floor", openFloor, generous, zipf},
	} {
		loaded := sync.OnceValues(func() (*instance, error) {
			in, err := c.open(c.limit, many)
			if err != nil {
				return nil, err
			}
			return in, in.load(keys.All(many))
		})
		b.Run(c.name, func(b *testing.B) {
			in, err := loaded()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var caller atomic.Int32
			b.RunParallel(func(pb *testing.PB) {
				take, seq := in.caller(), c.sequences[int(caller.Add(1)-1)%len(c.sequences)]
				for i := 0; pb.Next(); i++ {
					if _, err := take(seq.At(i % seq.Len())); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
