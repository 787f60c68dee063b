package limitstore_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestListsReadAReplica: a list is read from the replica while it is close
// behind, from the primary otherwise, and is the same.
func TestListsReadAReplica(t *testing.T) {
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	s := open(t, redis.Config{Address: primary.URL(), Replica: replica.URL(), MaxLag: 2 * time.Second})
	take := func(entity string) {
		t.Helper()
		if _, err := sluice.New(s).Take(t.Context(), sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "day"}, Limit: sluice.MustParse("9/day")}); err != nil {
			t.Fatal(err)
		}
	}
	list := func() int {
		t.Helper()
		page, err := s.List(t.Context(), sluice.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Buckets)
	}
	take("a")
	redistest.Eventually(t, time.Minute, "a list from the replica", func() bool {
		return list() == 1 && s.Stats().ReplicaReads > 0
	})
	if st := s.Stats(); !st.ReplicaLagKnown || st.ReplicaLag < 0 {
		t.Errorf("the lag is not known: %+v", st)
	}

	replica.Pause()
	redistest.Eventually(t, time.Minute, "a replica that is too far behind", func() bool {
		st := s.Stats()
		return st.ReplicaLag > 2*time.Second
	})
	take("b")
	read, skipped := s.Stats().ReplicaReads, s.Stats().ReplicaSkips
	if n := list(); n != 2 {
		t.Errorf("%d buckets, want 2", n)
	}
	if st := s.Stats(); st.ReplicaReads != read || st.ReplicaSkips != skipped+1 {
		t.Errorf("%d read and %d skipped before, then %+v", read, skipped, st)
	}
	replica.Resume()
	redistest.Eventually(t, time.Minute, "a list from the replica again", func() bool {
		return list() == 2 && s.Stats().ReplicaReads > read
	})
	// A replica that is gone while it seemed close is no obstacle.
	replica.Kill()
	if n := list(); n != 2 {
		t.Errorf("%d buckets, want 2", n)
	}
}
