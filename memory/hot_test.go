package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-go/sluice"
)

// TestLinesOfTheCache: a size that is not a line would only show in the speed.
func TestLinesOfTheCache(t *testing.T) {
	if n := unsafe.Sizeof(shard{}); n != 64 {
		t.Errorf("a shard has %d bytes, want 64", n)
	}
	if n := unsafe.Sizeof(hot{}); n != 64 {
		t.Errorf("a hot bucket has %d bytes, want 64", n)
	}
}

// heatKey makes k's bucket hot if it can be.
func (s *Store) heatKey(k *sluice.Key) bool {
	subject := s.hashSubject(k)
	n := shardOf(subject)
	sh := s.lockShard(n)
	defer sh.mu.Unlock()
	at := s.find(sh, subject, s.address(0, subject, k), k, k.Entity, 1, 0)
	if at.offset == 0 || sh.tables[at.class].head(at.offset).ext() > 0 {
		return false
	}
	s.heat(n, at, s.scopes.get(sh.tables[at.class].head(at.offset).scope()))
	return true
}

// TestFastPathsAnswerAsTheGeneral runs the same random calls on two stores: one
// takes the fast paths, with hot buckets, the other only the general path.
// Every field of every answer is the same.
func TestFastPathsAnswerAsTheGeneral(t *testing.T) {
	const seeds, calls = 40, 3000
	var hots, plains atomic.Int64
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			var now atomic.Int64
			now.Store(1_700_000_000_000_000)
			clock := func() time.Time { return time.UnixMicro(now.Load()) }
			fast, general := openAt(t, clock), openAt(t, clock)
			for i := range calls {
				now.Add(rnd.Int64N(1 << rnd.IntN(24)))
				if rnd.IntN(50) == 0 {
					now.Add(-rnd.Int64N(5000))
				}
				demands := randomDemands(rnd)
				if rnd.IntN(2) == 0 && fast.heatKey(&demands[0].Key) {
					hots.Add(1)
				}
				take := sluice.Take{Demands: demands, Peek: rnd.IntN(20) == 0}
				var got, want sluice.Decision
				var gotErr, wantErr error
				switch rnd.IntN(12) {
				case 0:
					gotErr, wantErr = fast.Adjust(t.Context(), demands, &got), general.Adjust(t.Context(), demands, &want)
				case 1:
					keys := []sluice.Key{demands[0].Key}
					gotErr, wantErr = fast.Reset(t.Context(), keys), general.Reset(t.Context(), keys)
				default:
					if fast.takePlain(&take, &got) {
						plains.Add(1)
					} else {
						gotErr = fast.take(&take, &got, nil)
					}
					wantErr = general.take(&take, &want, nil)
				}
				if gotErr != nil || wantErr != nil {
					t.Fatalf("call %d: %v and %v", i, gotErr, wantErr)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("call %d, %+v:\n got %+v\nwant %+v", i, take, got, want)
				}
			}
			for _, resource := range []string{"", "r"} {
				q := sluice.Query{Entity: "a", Resource: resource}
				got, err := fast.List(t.Context(), q)
				want, wantErr := general.List(t.Context(), q)
				if err != nil || wantErr != nil || len(got.Buckets) != len(want.Buckets) {
					t.Fatalf("list: %+v and %+v, %v, %v", got, want, err, wantErr)
				}
			}
		})
	}
	t.Cleanup(func() {
		if h, p := hots.Load(), plains.Load(); h < seeds*calls/10 || p < seeds*calls/4 {
			t.Errorf("of %d calls, %d met a hot bucket and %d took a fast path", seeds*calls, h, p)
		}
	})
}

func openAt(t *testing.T, clock func() time.Time) *Store {
	s, err := Open(Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// randomDemands is one demand, or several of different keys, among few keys and
// limits.
func randomDemands(rnd *rand.Rand) (demands []sluice.Demand) {
	limits := []sluice.Limit{sluice.Per(10, time.Second), sluice.Per(7, time.Minute).WithBurst(100), sluice.Per(1, 3*time.Millisecond).WithBurst(3)}
	entities := []string{"a", "b", "an entity that is too long to stand in the head"}
	names := []string{"x", "y", "z"}
	n := 1
	if rnd.IntN(2) == 0 {
		n += rnd.IntN(4)
	}
	for range n {
		name := rnd.IntN(len(names))
		limit := limits[name]
		if rnd.IntN(30) == 0 {
			limit = limits[rnd.IntN(len(limits))]
		}
		k := sluice.Key{Entity: entities[rnd.IntN(len(entities))], Limit: names[name]}
		if rnd.IntN(3) == 0 {
			k.Resource = "r"
		}
		dm := sluice.Demand{Key: k, Limit: limit, Cost: sluice.Thousandths(int64(rnd.IntN(3000)))}
		if !has(demands, k) {
			demands = append(demands, dm)
		}
	}
	return demands
}

func has(demands []sluice.Demand, k sluice.Key) bool {
	for i := range demands {
		if demands[i].Key == k {
			return true
		}
	}
	return false
}

// TestHotBucketIsNeverOver lets many callers at one bucket while others take it
// with a second one, list it, and move its record.
func TestHotBucketIsNeverOver(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	s := openAt(t, func() time.Time { return now })
	const burst, callers, calls = 20_000, 8, 5000
	one := sluice.Demand{Key: sluice.Key{Entity: "everyone"}, Limit: sluice.Per(1, time.Hour).WithBurst(burst)}
	two := sluice.Demand{Key: sluice.Key{Entity: "someone"}, Limit: sluice.Per(1, time.Hour).WithBurst(10 * burst)}
	l := sluice.New(s)
	if _, err := l.Peek(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	var allowed atomic.Int64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range calls {
				demands := []sluice.Demand{one, two}
				if (c+i)%10 != 0 {
					demands = demands[:1]
				}
				d, err := l.Take(context.Background(), demands...)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
				switch i % 50 {
				case 0:
					s.heatKey(&one.Key)
				case 10:
					sh := s.lockShard(shardOf(s.hashSubject(&one.Key)))
					sh.tables[0].rebuild(sh.tables[0].live)
					sh.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if n := allowed.Load(); n != burst {
		t.Errorf("%d of %d takes were allowed, want %d", n, callers*calls, burst)
	}
	page, err := l.List(t.Context(), sluice.Query{Entity: "everyone"})
	if err != nil || len(page.Buckets) != 1 || page.Buckets[0].Consumed.Thousandths() != burst*sluice.Token {
		t.Errorf("the list says %+v, %v; want %d consumed", page.Buckets, err, burst)
	}
}
