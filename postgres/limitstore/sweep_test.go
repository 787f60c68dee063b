package limitstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestSweep lets buckets, holders and receipts expire, and no others.
func TestSweep(t *testing.T) {
	address := postgrestest.Database(t)
	now := time.Date(2026, 3, 11, 10, 20, 30, 0, time.UTC)
	s := open(t, postgres.Config{Address: address, Clock: func() time.Time { return now }})
	l := sluice.New(s)
	ctx := context.Background()
	for i := range 10 {
		take(t, s, demand(fmt.Sprint("short ", i), "1/s", 1), true)
		take(t, s, demand(fmt.Sprint("window ", i), "1/s fixed", 1), true)
		take(t, s, demand(fmt.Sprint("long ", i), "1/hour", 1), true)
	}
	for i, keep := range []time.Duration{time.Second, time.Hour} {
		parallel := sluice.Demand{Key: sluice.Key{Entity: fmt.Sprint("parallel ", i)}, Limit: sluice.MustParse("1 concurrent")}
		if lease, _, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{parallel}, Keep: keep}); err != nil || lease == nil {
			t.Fatal(lease, err)
		}
	}
	count := func() [3]int64 {
		return [3]int64{
			postgrestest.Number(t, address, "SELECT count(*) FROM sluice.bucket"),
			postgrestest.Number(t, address, "SELECT count(*) FROM sluice.flight"),
			postgrestest.Number(t, address, "SELECT count(*) FROM sluice.receipt"),
		}
	}
	sweep := func(want [3]int64) {
		t.Helper()
		if _, _, err := limitstore.Sweep(s, 0); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != want {
			t.Errorf("after %s: %v buckets, holders and receipts are left, want %v", now, got, want)
		}
	}
	sweep([3]int64{32, 2, 2})
	now = now.Add(2 * time.Second)
	sweep([3]int64{11, 1, 1})
	now = now.Add(2 * time.Hour)
	sweep([3]int64{0, 0, 0})
}

// TestSweepSparesTickets: a window that is over is kept while somebody waits
// for the next, and not for longer.
func TestSweepSparesTickets(t *testing.T) {
	address := postgrestest.Database(t)
	now := time.Date(2026, 3, 11, 10, 20, 30, 0, time.UTC)
	s := open(t, postgres.Config{Address: address, Clock: func() time.Time { return now }})
	one := demand("a", "1/s fixed", 1)
	take(t, s, one, true)
	waiting := sluice.Take{Demands: []sluice.Demand{one}, Ticket: sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 1}}}
	var d sluice.Decision
	if err := s.Take(context.Background(), &waiting, &d); err != nil || d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	for _, c := range []struct {
		after time.Duration
		left  int64
	}{{bucket.TicketLife - time.Microsecond, 1}, {time.Microsecond, 0}} {
		now = now.Add(c.after)
		if _, _, err := limitstore.Sweep(s, 0); err != nil {
			t.Fatal(err)
		}
		if n := postgrestest.Number(t, address, "SELECT count(*) FROM sluice.bucket"); n != c.left {
			t.Errorf("at %s: %d buckets are left, want %d", now, n, c.left)
		}
		take(t, s, one, c.left == 0)
	}
}

// TestSweepGoesThroughAll sweeps more buckets than one sweep looks at.
func TestSweepGoesThroughAll(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address, Clock: time.Now})
	postgrestest.Exec(t, address, `INSERT INTO sluice.bucket
		(namespace, entity, resource, limit_name, algorithm, amount, period, burst, calendar, zone, used, rem, at, consumed, expires)
		SELECT '', 'user ' || i, '', '', 0, 1000, 1000000, 0, 0, '', 1000, 0, 0, 0, i % 2 * 4000000000000000
		FROM generate_series(1, 10000) i`)
	swept := 0
	for range 7 {
		n, _, err := limitstore.Sweep(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		swept += n
	}
	if swept != 5000 {
		t.Errorf("%d buckets were swept, want 5000", swept)
	}
	if n, _, err := limitstore.Sweep(s, time.Hour); err != nil || n != 0 {
		t.Errorf("a sweep right after the last one: %d, %v", n, err)
	}
}

// TestSweepByItself waits for what the store does in the background.
func TestSweepByItself(t *testing.T) {
	address := postgrestest.Database(t)
	s := open(t, postgres.Config{Address: address})
	take(t, s, demand("a", "1/ms", 1), true)
	postgrestest.Eventually(t, "the bucket is swept", func() bool { return postgrestest.Number(t, address, "SELECT count(*) FROM sluice.bucket") == 0 })
}
