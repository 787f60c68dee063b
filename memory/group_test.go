package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
	consumed := map[sluice.Key]sluice.Tokens{}
	for range 3 {
		for range 2000 {
			var demands []sluice.Demand
			for _, n := range r.Perm(40)[:1+r.IntN(24)] {
				demands = append(demands, sluice.Demand{
					Key:   sluice.Key{Entity: entities[n%2*r.IntN(len(entities))], Resource: "api", Limit: fmt.Sprint("limit", n)},
					Limit: sluice.MustParse(limits[n%len(limits)]),
					Cost:  sluice.Tokens(1 + r.IntN(5)),
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
				consumed[dm.Key] += dm.Cost
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
			s.sweepAll(&s.shards[i], &s.shards[i].tables[class])
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

func checkConsumed(t *testing.T, s *Store, want map[sluice.Key]sluice.Tokens) {
	t.Helper()
	got := map[sluice.Key]sluice.Tokens{}
	for q := (sluice.Query{Max: 7}); ; {
		page, err := s.List(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Buckets {
			if _, twice := got[b.Key]; twice {
				t.Errorf("%v is listed twice", b.Key)
			}
			got[b.Key] = b.Consumed
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%v consumed %s, want %s", k, got[k], n)
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
