package inprocess

import (
	"context"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"

	"github.com/sluice-go/sluice/bench/contest"
)

func (l limit) sluice() sluice.Limit { return sluice.Per(1, l.Every).WithBurst(int64(l.Burst)) }

func openSluice(l limit, keys int) (*instance, error) {
	return withSluice(keys, sluice.Demand{Limit: l.sluice()})
}

// openSluiceThree takes from three limits of the key at once.
func openSluiceThree(l limit, keys int) (*instance, error) {
	return withSluice(3*keys,
		sluice.Demand{Key: sluice.Key{Limit: "rps"}, Limit: l.sluice()},
		sluice.Demand{Key: sluice.Key{Limit: "rpm"}, Limit: l.sluice()},
		sluice.Demand{Key: sluice.Key{Limit: "rpd"}, Limit: l.sluice()},
	)
}

// withSluice takes the demands for whatever entity is asked for, through the
// call and with the buffers that a program in a hurry would use.
func withSluice(buckets int, demands ...sluice.Demand) (*instance, error) {
	store, err := memory.Open(memory.Config{MaxBuckets: 2*buckets + 1000, MaxBytes: 1 << 40})
	if err != nil {
		return nil, err
	}
	limiter := sluice.New(store)
	ctx := context.Background()
	return &instance{
		caller: func() contest.Take {
			// What one caller writes must not lie beside what another does: in a
			// program, each would have made its own.
			mine := &struct {
				_    [128]byte
				take sluice.Take
				got  sluice.Decision
				all  [3]sluice.Demand
				res  [3]sluice.Result
				_    [128]byte
			}{}
			t, d := &mine.take, &mine.got
			t.Demands = mine.all[:copy(mine.all[:], demands)]
			d.Results = mine.res[:0]
			return func(key string) (bool, error) {
				for i := range t.Demands {
					t.Demands[i].Key.Entity = key
				}
				err := limiter.Decide(ctx, t, d)
				return d.Allowed, err
			}
		},
		size:  func() int { return int(store.Stats().Buckets) },
		close: func() { store.Close() }, //nolint:errcheck // without a snapshot there is nothing to lose
	}, nil
}
