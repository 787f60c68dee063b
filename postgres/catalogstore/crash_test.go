package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/catalog/catalogtest"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// writerVariable makes this test binary write to the catalog of a database
// until it is killed.
const writerVariable = "SLUICE_POSTGRES_TEST_WRITER"

func init() {
	address := os.Getenv(writerVariable)
	if address == "" {
		return
	}
	ctx := context.Background()
	c, err := catalogstore.Open(ctx, postgres.Config{Address: address})
	if err == nil {
		err = catalogtest.WriteForEver(ctx, c, os.Stdout)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestCatalogKilledWriters kills processes in the middle of writing.
func TestCatalogKilledWriters(t *testing.T) {
	address := postgrestest.Database(t)
	open := func(tb testing.TB) catalog.Store { return open(tb, postgres.Config{Address: address}) }
	catalogtest.Crash(t, open, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerVariable+"="+address)
		cmd.Stderr = os.Stderr
		return cmd
	})
}

// numbered is a batch that leaves traces in many places: two records of its
// own, one that counts, one that the batch before has put and goes, and an
// event.
func numbered(namespace string, n int) *catalog.Batch {
	record := func(id string) catalog.Record {
		return catalog.Record{
			RecordKey: catalog.RecordKey{Namespace: namespace, Kind: catalog.KindEntity, ID: id},
			Under:     "counter", Data: fmt.Appendf(nil, `{"n":%d}`, n),
		}
	}
	b := &catalog.Batch{Namespace: namespace, Mutations: []catalog.Mutation{
		{Record: record(fmt.Sprintf("a%06d", n)), If: catalog.IfAbsent},
		{Record: record(fmt.Sprintf("b%06d", n)), If: catalog.IfAbsent},
		{Record: record(fmt.Sprintf("gone%06d", n)), If: catalog.IfAbsent},
		{Record: record("counter"), If: int64(n - 1)},
	}}
	if n > 1 {
		b.Mutations = append(b.Mutations, catalog.Mutation{Op: catalog.Delete, Record: record(fmt.Sprintf("gone%06d", n-1)), If: int64(n - 1)})
	}
	id := fmt.Sprintf("v%06d", n)
	b.Events = []catalog.EventRecord{{Namespace: namespace, Subject: "counter", ID: id, Data: []byte(`{}`)}}
	return b
}

func numberedUsage(namespace string, n int) *catalog.UsageBatch {
	return &catalog.UsageBatch{Node: namespace, Seq: int64(n), Rows: []catalog.UsageRow{
		{Namespace: namespace, Entity: "counter", Resource: "r", Limit: "l", Span: catalog.Hourly, Start: hour(1), Amount: 1, Count: 1},
		{Namespace: namespace, Entity: "counter", Resource: "r", Limit: "l", Span: catalog.Daily, Start: hour(0), Amount: 1, Count: 1},
	}}
}

// checkNumbered checks that all traces are of the same batches, which are
// those acknowledged and at most unheard more, and answers how many.
func checkNumbered(t *testing.T, c catalog.Store, namespace string, acknowledged, unheard int) int {
	t.Helper()
	ctx := t.Context()
	var ids []string
	q := catalog.ListQuery{Namespace: namespace, Kind: catalog.KindEntity, Under: "counter", Max: 1000}
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	n := (len(ids) - 2) / 2 // but for the counter and the one that is to go
	if n < acknowledged || n > acknowledged+unheard {
		t.Errorf("%s: %d batches are there, %d were acknowledged, and at most %d more were under way", namespace, n, acknowledged, unheard)
	}
	var want []string
	for _, prefix := range []string{"a", "b"} {
		for i := range n {
			want = append(want, fmt.Sprintf("%s%06d", prefix, i+1))
		}
	}
	want = append(want, "counter", fmt.Sprintf("gone%06d", n))
	if strings.Join(ids, " ") != strings.Join(want, " ") {
		t.Errorf("%s: the records are not those of %d whole batches", namespace, n)
	}
	counter, err := c.Get(ctx, catalog.RecordKey{Namespace: namespace, Kind: catalog.KindEntity, ID: "counter"})
	if err != nil || counter.Version != int64(n) {
		t.Errorf("%s: the counter has version %d and error %v, want %d", namespace, counter.Version, err, n)
	}
	events := 0
	e := catalog.EventQuery{Namespace: namespace, Max: 1000}
	for {
		page, err := c.Events(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		events += len(page.Events)
		if e.Cursor = page.Next; e.Cursor == "" {
			break
		}
	}
	if events != n {
		t.Errorf("%s: %d events of %d batches", namespace, events, n)
	}
	for _, span := range []catalog.Span{catalog.Hourly, catalog.Daily} {
		page, err := c.SumUsage(ctx, catalog.UsageQuery{Namespace: namespace, Entity: "counter", Span: span, From: hour(0), To: hour(2), Max: 1})
		if err != nil || len(page.Rows) != 1 || page.Rows[0].Amount < int64(acknowledged) || page.Rows[0].Amount > int64(n) {
			t.Errorf("%s: usage is %+v with error %v, want %d to %d", namespace, page.Rows, err, acknowledged, n)
		}
	}
	return n
}

// TestCatalogCrashedServer ends PostgreSQL as a crash does while editors are
// writing, and starts it again: what was acknowledged is there, and whole. Each
// editor goes on by itself, sending what is unknown again, which is refused if
// it was there.
func TestCatalogCrashedServer(t *testing.T) {
	server := postgrestest.Start(t, "fsync=on", "synchronous_commit=off") // which the catalog does not let pass
	address := server.Database(t)
	c := open(t, postgres.Config{Address: address, Timeout: 5 * time.Second})
	const editors = 4
	stop := make(chan struct{})
	var mu sync.Mutex
	var acknowledged, unknown [editors]int
	var wg sync.WaitGroup
	for e := range editors {
		wg.Go(func() {
			namespace := fmt.Sprint("n", e)
			for n := 1; ; {
				select {
				case <-stop:
					return
				default:
				}
				_, err := c.Change(context.Background(), numbered(namespace, n))
				repeated := errors.Is(err, catalog.ErrConflict)
				for err == nil || repeated {
					if err = c.AddUsage(context.Background(), numberedUsage(namespace, n)); err == nil {
						break
					}
					repeated = errors.Is(err, sluice.ErrUnknown) || errors.Is(err, sluice.ErrUnavailable)
				}
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[e], n = n, n+1
				case errors.Is(err, sluice.ErrUnknown):
					unknown[e]++
				case !errors.Is(err, sluice.ErrUnavailable):
					t.Errorf("%s: batch %d: %v", namespace, n, err)
					mu.Unlock()
					return
				}
				mu.Unlock()
			}
		})
	}
	least := func() int {
		mu.Lock()
		defer mu.Unlock()
		return min(acknowledged[0], acknowledged[1], acknowledged[2], acknowledged[3])
	}
	for round := range 2 {
		before := least()
		postgrestest.Eventually(t, "batches are acknowledged", func() bool { return least() >= before+10 })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		t.Logf("crash %d after %v batches", round+1, acknowledged)
		mu.Unlock()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	before := least()
	postgrestest.Eventually(t, "batches are acknowledged again", func() bool { return least() > before })
	close(stop)
	wg.Wait()
	for e := range editors {
		checkNumbered(t, c, fmt.Sprint("n", e), acknowledged[e], 1)
	}
	t.Logf("%v acknowledged, %v unknown", acknowledged, unknown)
}
