package limitstore_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// ticketID is that of a node with a large number, as most have.
func ticketID(n uint64) sluice.HoldID { return sluice.HoldID{Node: 1<<63 + n, Seq: 1} }

// waiting takes with a ticket, straight from the store.
func waiting(t *testing.T, s *limitstore.Store, n uint64, demands ...sluice.Demand) sluice.Decision {
	t.Helper()
	var d sluice.Decision
	if err := s.Take(context.Background(), &sluice.Take{Demands: demands, Ticket: sluice.Ticket{ID: ticketID(n)}}, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func leaveLine(t *testing.T, s *limitstore.Store, n uint64, d sluice.Demand) {
	t.Helper()
	if err := s.Return(context.Background(), []sluice.HoldReturn{{Key: d.Key, Limit: d.Limit, ID: ticketID(n)}}); err != nil {
		t.Fatal(err)
	}
}

// TestTicketsAndVersions looks at what is stored. Only a record in which somebody
// waits has the version that nodes without tickets refuse; once nobody does, it
// is as it was before.
func TestTicketsAndVersions(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{Address: server.URL()})
	const lives = 9 // where the version, and until when the key lives, end
	d, beside := demand("line", "1/h"), demand("line", "5/h sliding")
	beside.Key.Limit = "beside"
	if _, err := sluice.New(s).Take(context.Background(), d, beside); err != nil {
		t.Fatal(err)
	}
	before := server.Must("GET", recordOf("line"))
	if before[0] != 1 {
		t.Fatalf("version %d without tickets", before[0])
	}
	for n := range uint64(2) {
		if got := waiting(t, s, n+1, d); got.Allowed {
			t.Fatalf("%+v", got)
		}
		if version := server.Must("GET", recordOf("line"))[0]; version != 2 {
			t.Fatalf("version %d with tickets", version)
		}
	}
	page, err := s.List(context.Background(), sluice.Query{})
	if err != nil || len(page.Buckets) != 2 {
		t.Fatal(page, err)
	}
	for _, b := range page.Buckets {
		if want := map[string]int{"rps": 2, "beside": 0}[b.Key.Limit]; b.Tickets != want {
			t.Errorf("%s: %d in line, want %d", b.Key, b.Tickets, want)
		}
	}
	leaveLine(t, s, 1, d)
	leaveLine(t, s, 2, d)
	after := server.Must("GET", recordOf("line"))
	if after[0] != 1 || after[lives:] != before[lives:] {
		t.Errorf("without tickets again: %q, want %q", after, before)
	}
}

// TestRoomInLine hears of tickets that were removed, because those behind them
// may pass, but not of one that has passed.
func TestRoomInLine(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{Address: server.URL()})
	next := watched(t, s)
	next(sluice.AnyKey)
	empty := func(entity string) sluice.Demand {
		d := demand(entity, "10/h")
		d.Cost = sluice.Tokens(10)
		if got := waiting(t, s, 9, d); !got.Allowed {
			t.Fatalf("%+v", got)
		}
		d.Cost = sluice.Tokens(1)
		if got := waiting(t, s, 1, d); got.Allowed {
			t.Fatalf("%+v", got)
		}
		return d
	}
	back := func(d sluice.Demand) {
		t.Helper()
		d.Cost = sluice.Thousandths(-sluice.Token)
		if _, err := sluice.New(s).Adjust(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		next(d.Key)
	}

	returned := empty("returned")
	leaveLine(t, s, 1, returned)
	next(returned.Key)

	never := empty("never")
	never.Cost = sluice.Tokens(11)
	waiting(t, s, 1, never)
	next(never.Key)

	fits, other := empty("fits"), empty("other")
	back(fits)
	if got := waiting(t, s, 1, fits, other); got.Allowed {
		t.Fatalf("%+v", got)
	}
	next(fits.Key)

	passed := empty("passed")
	back(passed)
	if got := waiting(t, s, 1, passed); !got.Allowed {
		t.Fatalf("%+v", got)
	}
	leaveLine(t, s, 1, passed) // it is not there any more
	back(fits)                 // the next that is heard of
}
