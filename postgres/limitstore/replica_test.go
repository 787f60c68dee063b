package limitstore_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestListsReadAStandby: a list is read from the standby while it is close behind,
// from the primary otherwise, and is the same.
func TestListsReadAStandby(t *testing.T) {
	primary := postgrestest.Start(t)
	address := primary.Database(t)
	standby, at := primary.StartStandby(t, address)
	s, err := limitstore.Open(t.Context(), postgres.Config{Address: address, Replica: at, MaxLag: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take := func(entity string) {
		t.Helper()
		if _, err := sluice.New(s).Take(t.Context(), sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "day"}, Limit: sluice.MustParse("9/day")}); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (n int) {
		t.Helper()
		page, err := s.List(t.Context(), sluice.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Buckets)
	}
	take("a")
	postgrestest.Eventually(t, "a list from the standby", func() bool { return list() == 1 && s.Stats().ReplicaReads > 0 })
	if st := s.Stats(); !st.ReplicaLagKnown || st.ReplicaLag < 0 {
		t.Errorf("the lag is not known: %+v", st)
	}

	postgrestest.Exec(t, at, "SELECT pg_wal_replay_pause()")
	take("b")
	postgrestest.Eventually(t, "a standby that is too far behind", func() bool { return s.Stats().ReplicaLag > 2*time.Second })
	read, skipped := s.Stats().ReplicaReads, s.Stats().ReplicaSkips
	if n := list(); n != 2 {
		t.Errorf("%d buckets, want 2", n)
	}
	if st := s.Stats(); st.ReplicaReads != read || st.ReplicaSkips != skipped+1 {
		t.Errorf("%d read and %d skipped before, then %+v", read, skipped, st)
	}
	postgrestest.Exec(t, at, "SELECT pg_wal_replay_resume()")
	postgrestest.Eventually(t, "a list from the standby again", func() bool { return list() == 2 && s.Stats().ReplicaReads > read })

	// A standby that is gone while it seemed close is no obstacle.
	if err := standby.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := list(); n != 2 {
		t.Errorf("%d buckets, want 2", n)
	}
}
