package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// TestWhateverIsTakenTogether takes from random choices of a subject's limits,
// in any order and under numbers that change, so that its buckets come to lie
// in records of every size. What each bucket has consumed must be what was
// taken from it, here and after a snapshot.
func TestWhateverIsTakenTogether(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	config := Config{Clock: func() time.Time { return now }, Snapshot: filepath.Join(t.TempDir(), "snapshot")}
	s := reopen(t, config)
	r := rand.New(rand.NewPCG(1, 2))
	limits := []string{"1000000/hour", "2000000/hour sliding", "1000000/day fixed", "3000000/hour burst 5000000"}
	entities := []string{"", "a", "exactly-24-bytes-long-xxx", "an entity that is too long for the head of a record"}
	consumed := map[sluice.Key]int64{}
	for range 3 {
		for range 2000 {
			var demands []sluice.Demand
			for _, n := range r.Perm(40)[:1+r.IntN(24)] {
				demands = append(demands, sluice.Demand{
					Key:   sluice.Key{Entity: entities[n%2*r.IntN(len(entities))], Resource: "api", Limit: fmt.Sprint("limit", n)},
					Limit: sluice.MustParse(limits[n%len(limits)]),
					Cost:  sluice.Thousandths(int64(1 + r.IntN(5))),
				})
				if n%len(limits) == 0 && r.IntN(50) == 0 {
					demands[len(demands)-1].Limit = sluice.MustParse("9000000/hour")
				}
			}
			d, err := sluice.New(s).Take(context.Background(), demands...)
			if err != nil || !d.Allowed {
				t.Fatalf("%v, %+v", err, d)
			}
			for _, dm := range demands {
				consumed[dm.Key] += dm.Cost.Thousandths()
			}
		}
		checkConsumed(t, s, consumed)
		for i := range s.shards {
			for _, entity := range entities {
				k := sluice.Key{Entity: entity, Resource: "api"}
				if n := s.groups(&s.shards[i], s.hashSubject(&k), &k, entity); n > maxGroups {
					t.Errorf("%q has %d records with several buckets, want at most %d", entity, n, maxGroups)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, config)
		checkConsumed(t, s, consumed)
	}
	now = now.Add(100 * 24 * time.Hour)
	for i := range s.shards {
		for class := range s.shards[i].tables {
			s.sweepAll(uint32(i), class)
		}
	}
	if st := s.Stats(); st.Buckets != 0 || st.Bytes != 0 {
		t.Errorf("when all are full again: %+v, want nothing", st)
	}
	if n := len(s.scopes.byKey); n != 0 || s.scopes.reserved != 0 {
		t.Errorf("%d scopes and %d reservations are left", n, s.scopes.reserved)
	}
}

func reopen(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func checkConsumed(t *testing.T, s *Store, want map[sluice.Key]int64) {
	t.Helper()
	got := map[sluice.Key]int64{}
	for q := (sluice.Query{Max: 7}); ; {
		page, err := s.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Buckets {
			if _, twice := got[b.Key]; twice {
				t.Errorf("%v is listed twice", b.Key)
			}
			got[b.Key] = b.Consumed.Thousandths()
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%v consumed %s, want %s", k, sluice.Thousandths(got[k]), sluice.Thousandths(n))
		}
	}
	if len(got) != len(want) || s.Stats().Buckets < int64(len(want)) {
		t.Errorf("%d buckets listed, %d counted, want %d", len(got), s.Stats().Buckets, len(want))
	}
}

// TestManyLimitsOfOneSubject: naming ever more limits must not make look-ups
// slow, so they spread over the shard.
func TestManyLimitsOfOneSubject(t *testing.T) {
	s := reopen(t, Config{})
	l := sluice.New(s)
	const most = 3000
	for i := range most {
		pair := []sluice.Demand{
			{Key: sluice.Key{Limit: fmt.Sprint("a", i)}, Limit: sluice.Per(10, time.Hour)},
			{Key: sluice.Key{Limit: fmt.Sprint("b", i)}, Limit: sluice.Per(10, time.Hour)},
		}
		if d, err := l.Take(context.Background(), pair...); err != nil || !d.Allowed {
			t.Fatalf("%v, %+v", err, d)
		}
	}
	k := sluice.Key{}
	sh := &s.shards[shardOf(s.hashSubject(&k))]
	if groups, alone := s.groups(sh, s.hashSubject(&k), &k, ""), sh.tables[0].live; groups != maxGroups || alone != 2*(most-maxGroups) {
		t.Errorf("%d records with several buckets and %d with one, want %d and %d", groups, alone, maxGroups, 2*(most-maxGroups))
	}
}

// TestShortAndLongWayAtOnce has callers on the short way beside others that add
// records and so move them, that list, save, sweep and change limits. Nothing
// of what was taken may be lost.
func TestShortAndLongWayAtOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := reopen(t, Config{Clock: func() time.Time { return now }, Snapshot: filepath.Join(t.TempDir(), "snapshot")})
	l := sluice.New(s)
	day := sluice.Per(1_000_000_000, 24*time.Hour)
	const callers, rounds = 8, 4000
	var counts [callers]map[sluice.Key]int64
	var wg sync.WaitGroup
	for c := range callers {
		counts[c] = map[sluice.Key]int64{}
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 3))
			entities := []string{"a", "b", "exactly-24-bytes-long-xx", "longer than what has room in a record"}
			for i := range rounds {
				entity := entities[r.IntN(len(entities))]
				if r.IntN(4) == 0 {
					entity = fmt.Sprint("new", i/20) // for others, too
				}
				names := []string{"rps", "rpm", "rpd"}[:1+2*r.IntN(2)]
				if len(names) == 1 {
					names = []string{"alone"}
				}
				var demands []sluice.Demand
				for _, name := range names {
					demands = append(demands, sluice.Demand{Key: sluice.Key{Entity: entity, Limit: name}, Limit: day, Cost: sluice.Thousandths(int64(1 + r.IntN(9)))})
				}
				switch r.IntN(20) {
				case 0: // other numbers, which the next one changes back
					demands[0].Limit.Burst = sluice.Thousandths(sluice.MaxThousandths / 2)
				case 1: // several records
					demands = append(demands, sluice.Demand{Key: sluice.Key{Entity: entity + "'", Limit: "alone"}, Limit: day, Cost: sluice.Thousandths(1)})
				case 2: // the long way
					demands[0].CountRefused = true
				}
				switch i % 500 {
				case 100:
					if err := s.Save(); err != nil {
						t.Error(err)
					}
				case 200:
					if _, err := s.List(context.Background(), sluice.Query{}); err != nil {
						t.Error(err)
					}
				case 300:
					for n := range s.shards {
						s.makeRoom(uint32(n), now.UnixMicro())
					}
				}
				if i%5 == 0 {
					k := sluice.Key{Entity: entity}
					sh := s.lockShard(shardOf(s.hashSubject(&k)))
					for _, t := range sh.tables {
						if t != nil {
							t.rebuild(t.live)
						}
					}
					sh.mu.Unlock()
				}
				d, err := l.Take(context.Background(), demands...)
				if err != nil || !d.Allowed {
					t.Errorf("%v, %+v", err, d)
					return
				}
				for _, dm := range demands {
					counts[c][dm.Key] += dm.Cost.Thousandths()
				}
			}
		})
	}
	wg.Wait()
	all := map[sluice.Key]int64{}
	for _, some := range counts {
		for k, n := range some {
			all[k] += n
		}
	}
	checkConsumed(t, s, all)
}
