package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// put is a batch that stores an entity in namespace "n".
func put(id string, data string) *catalog.Batch {
	return &catalog.Batch{Namespace: "n", Mutations: []catalog.Mutation{{
		Record: catalog.Record{RecordKey: catalog.RecordKey{Namespace: "n", Kind: catalog.KindEntity, ID: id}, Data: []byte(data)},
		If:     catalog.IfAny,
	}}}
}

// TestCatalogTimeoutAfterTheWork loses the answers of a server that does its
// work: the outcome of what changes something is unknown, and it is not sent
// again.
func TestCatalogTimeoutAfterTheWork(t *testing.T) {
	address := postgrestest.Database(t)
	p, through := postgrestest.Proxy(t, address)
	c := open(t, postgres.Config{Address: through, Timeout: 500 * time.Millisecond, MaxConns: 2})
	beside := open(t, postgres.Config{Address: address})
	ctx := context.Background()
	key := catalog.RecordKey{Namespace: "n", Kind: catalog.KindEntity, ID: "a"}

	// unheard makes a call whose answer is lost. On a slow machine it may not
	// get as far as sending it, which the error tells; then it is tried again.
	unheard := func(want error, call func() error) {
		t.Helper()
		var err error
		for range 20 {
			if _, err := c.Get(ctx, key); err != nil && !errors.Is(err, catalog.ErrNotFound) {
				t.Fatal(err)
			}
			lost := p.Lost()
			p.LoseAnswers(true)
			err = call()
			p.LoseAnswers(false)
			if p.Lost() > lost && !(want == sluice.ErrUnknown && errors.Is(err, sluice.ErrUnavailable)) {
				break
			}
		}
		postgrestest.WantError(t, err, want)
	}
	unheard(sluice.ErrUnknown, func() error { _, err := c.Change(ctx, put("a", `{}`)); return err })
	unheard(sluice.ErrUnknown, func() error {
		return c.AddUsage(ctx, &catalog.UsageBatch{Node: "node", Seq: 1, Rows: []catalog.UsageRow{{Namespace: "n", Entity: "a", Resource: "r", Limit: "l", Span: catalog.Hourly, Start: hour(1), Amount: 5, Count: 1}}})
	})
	unheard(sluice.ErrUnavailable, func() error { _, err := c.Get(ctx, key); return err })
	unheard(sluice.ErrUnavailable, func() error { _, err := c.Resolve(ctx, catalog.ResolveQuery{Namespace: "n", Entity: "a"}); return err })

	r, err := beside.Get(ctx, key)
	if err != nil || r.Version != 1 {
		t.Errorf("the record has version %d and error %v, want 1: it was put once", r.Version, err)
	}
	// Whoever does not know sends the same batch of usage again.
	again := &catalog.UsageBatch{Node: "node", Seq: 1, Rows: []catalog.UsageRow{{Namespace: "n", Entity: "a", Resource: "r", Limit: "l", Span: catalog.Hourly, Start: hour(1), Amount: 5, Count: 1}}}
	if err := c.AddUsage(ctx, again); err != nil {
		t.Fatal(err)
	}
	page, err := beside.Usage(ctx, catalog.UsageQuery{Namespace: "n", Entity: "a", Span: catalog.Hourly, From: hour(0), To: hour(2), Max: 10})
	if err != nil || len(page.Rows) != 1 || page.Rows[0].Amount != 5 {
		t.Errorf("usage is %+v with error %v, want 5 once", page.Rows, err)
	}
}

// TestCatalogErrors tells apart what could not be reached, what was refused and
// what is closed.
func TestCatalogErrors(t *testing.T) {
	server := postgrestest.Start(t)
	c := open(t, postgres.Config{Address: server.Database(t), Timeout: time.Second})
	ctx := context.Background()
	if _, err := c.Change(ctx, put("a", `not JSON`)); err == nil || errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("data that is not JSON: got %v, want an error about it", err)
	}
	if _, err := c.Change(ctx, put("a\x00", `{}`)); err == nil || errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("a zero byte: got %v, want an error about it", err)
	}
	large := &catalog.Batch{Namespace: "n", Events: make([]catalog.EventRecord, c.MaxBatch()+1)}
	if _, err := c.Change(ctx, large); err == nil || errors.Is(err, sluice.ErrUnavailable) {
		t.Errorf("a batch too large: got %v, want an error about it", err)
	}
	if _, err := c.Find(ctx, catalog.KindEntity, "a"); err == nil || errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("an entity without its namespace: got %v, want an error about it", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Change(ended, put("a", `{}`)); !errors.Is(err, context.Canceled) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("with an ended context: %v", err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err := c.Change(ctx, put("a", `{}`))
	postgrestest.WantError(t, err, sluice.ErrUnavailable)
	_, err = c.List(ctx, catalog.ListQuery{Namespace: "n", Kind: catalog.KindEntity, Max: 1})
	postgrestest.WantError(t, err, sluice.ErrUnavailable)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if version, err := c.Change(ctx, put("a", `{}`)); err != nil || version != 1 {
		t.Errorf("after a restart: version %d and error %v, want 1", version, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Change(ctx, put("a", `{}`)); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := c.Watch(ctx, func(catalog.Changed) {}); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("watching after Close: %v", err)
	}
}

// TestCatalogLargestBatch stores the largest batch that is allowed.
func TestCatalogLargestBatch(t *testing.T) {
	c := open(t, postgres.Config{Address: postgrestest.Database(t), Timeout: 20 * time.Second})
	b := &catalog.Batch{Namespace: "n"}
	for i := range c.MaxBatch() / 2 {
		id := fmt.Sprintf("%05d", i)
		b.Mutations = append(b.Mutations, put(id, `{"name":"somebody"}`).Mutations[0])
		b.Events = append(b.Events, catalog.EventRecord{Namespace: "n", Subject: id, ID: id, Data: []byte(`{"who":"somebody"}`)})
	}
	for _, what := range []string{"new", "over the old"} {
		began := time.Now()
		if _, err := c.Change(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d mutations and events, %s, in %s", c.MaxBatch(), what, time.Since(began).Round(time.Millisecond))
		for i := range b.Events {
			b.Events[i].ID += "'"
		}
	}
	for i := range b.Mutations {
		b.Mutations[i].Op = catalog.Delete
	}
	b.Events = nil
	if _, err := c.Change(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	page, err := c.List(t.Context(), catalog.ListQuery{Namespace: "n", Kind: catalog.KindEntity, Max: 1})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("%d records are left, error %v", len(page.Records), err)
	}
}

// TestCatalogBusy has editors put and delete the same keys in any order, while
// their uses are noted and all of them are purged again and again. They wait
// for each other, but not in a circle, and none fails.
func TestCatalogBusy(t *testing.T) {
	server := postgrestest.Start(t)
	c := open(t, postgres.Config{Address: server.Database(t), Timeout: 20 * time.Second, MaxConns: 6})
	ctx := t.Context()
	const keys, rounds = 20, 20
	var jobs sync.WaitGroup
	failed := make(chan error, 6)
	job := func(do func() error) {
		jobs.Go(func() {
			for range rounds {
				if err := do(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for range 3 {
		job(func() error {
			b := &catalog.Batch{Namespace: "n"}
			for i, k := range rand.Perm(keys) {
				r := catalog.Record{RecordKey: catalog.RecordKey{Namespace: "n", Kind: catalog.KindKey, ID: fmt.Sprint(k)}, Data: []byte(`{}`)}
				b.Mutations = append(b.Mutations, catalog.Mutation{Op: []catalog.Op{catalog.Put, catalog.Put, catalog.Delete}[i%3], Record: r, If: catalog.IfAny})
			}
			_, err := c.Change(ctx, b)
			return err
		})
	}
	for range 2 {
		job(func() error {
			var uses []catalog.Use
			for _, k := range rand.Perm(keys) {
				uses = append(uses, catalog.Use{Namespace: "n", ID: fmt.Sprint(k), At: time.Now()})
			}
			return c.MarkUsed(ctx, uses)
		})
	}
	job(func() error {
		_, err := c.Purge(ctx, catalog.Purge{Target: catalog.PurgeRecords, Namespace: "n", Max: 7})
		return err
	})
	jobs.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if log := server.Log(); strings.Contains(log, "deadlock") {
		t.Errorf("the server's log has a deadlock:\n%s", log)
	}
	if v, err := c.Change(ctx, &catalog.Batch{Namespace: "n"}); err != nil || v != 3*rounds+1 {
		t.Errorf("the version is %d with error %v, want %d", v, err, 3*rounds+1)
	}
}
