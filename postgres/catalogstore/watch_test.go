package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// watching watches a catalog and answers what is heard, from after the
// beginning on, and how it ended.
func watching(t *testing.T, c *catalogstore.Store) (heard chan catalog.Changed, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	heard, ended = make(chan catalog.Changed, 10_000), make(chan error, 1)
	go func() { ended <- c.Watch(ctx, func(c catalog.Changed) { heard <- c }) }()
	hear(t, heard, catalog.Changed{All: true})
	return heard, ended
}

func hear(t *testing.T, heard chan catalog.Changed, want catalog.Changed) {
	t.Helper()
	select {
	case got := <-heard:
		if got != want {
			t.Fatalf("heard of %+v, want %+v", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing heard, want %+v", want)
	}
}

func entity(id string) catalog.Changed {
	return catalog.Changed{Namespace: "n", Kind: catalog.KindEntity, ID: id}
}

// TestCatalogWatchMissesNothing has several namespaces changed at once: every
// change is heard of, each once.
func TestCatalogWatchMissesNothing(t *testing.T) {
	address := postgrestest.Database(t)
	pooled := postgrestest.Shared(t).StartPgBouncer(t, address)
	c := open(t, postgres.Config{Address: address})
	listening, _ := watching(t, open(t, postgres.Config{Address: address}))
	polling, _ := watching(t, open(t, postgres.Config{Address: pooled}))
	direct, _ := watching(t, open(t, postgres.Config{Address: pooled, ListenAddress: address}))
	const writers, changes = 4, 25
	failed := make(chan error, writers)
	for w := range writers {
		go func() {
			for i := range changes {
				b := put(fmt.Sprint(i), `{}`)
				b.Namespace = fmt.Sprint("n", w)
				b.Mutations[0].Record.Namespace = b.Namespace
				guard := b.Mutations[0]
				guard.Record.Kind, guard.Record.Data = catalog.KindGuard, nil
				b.Mutations = append(b.Mutations, guard)
				if _, err := c.Change(context.Background(), b); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	acknowledged := time.Now()
	for name, heard := range map[string]chan catalog.Changed{"listening": listening, "polling": polling, "listening beside": direct} {
		next := map[string]int{}
		for range writers * changes {
			select {
			case got := <-heard:
				if want := fmt.Sprint(next[got.Namespace]); got.Kind != catalog.KindEntity || got.ID != want {
					t.Fatalf("%s: heard of %+v, want %s", name, got, want)
				}
				next[got.Namespace]++
			case <-time.After(time.Minute):
				t.Fatalf("%s: heard only of %v", name, next)
			}
		}
		if len(heard) > 0 {
			t.Errorf("%s: heard of %d changes too many", name, len(heard))
		}
	}
	t.Logf("all was heard of %s after the last was acknowledged", time.Since(acknowledged).Round(time.Millisecond))
}

// TestCatalogWatchCannotTell cuts the log, and sets it back as a restored
// backup does: then anything may have changed.
func TestCatalogWatchCannotTell(t *testing.T) {
	address := postgrestest.Database(t)
	c := open(t, postgres.Config{Address: address})
	heard, _ := watching(t, c)
	change := func(id string) {
		t.Helper()
		if _, err := c.Change(t.Context(), put(id, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	change("a")
	hear(t, heard, entity("a"))
	postgrestest.Exec(t, address, "UPDATE sluice.catalog_last SET seq = seq + 10")
	hear(t, heard, catalog.Changed{All: true})
	change("b")
	hear(t, heard, entity("b"))
	postgrestest.Exec(t, address, "UPDATE sluice.catalog_last SET seq = 0; DELETE FROM sluice.catalog_change")
	hear(t, heard, catalog.Changed{All: true})
	change("c")
	hear(t, heard, entity("c"))

	// Changes that are old are forgotten.
	postgrestest.Exec(t, address, "UPDATE sluice.catalog_last SET seq = 999999")
	change("d")
	if n := postgrestest.Number(t, address, "SELECT min(seq) FROM sluice.catalog_change"); n != 1_000_000 {
		t.Errorf("the oldest change kept is %d, want 1000000", n)
	}
}

// TestCatalogWatchEnds with its connection, also with one that just leads
// nowhere any more, and begins again.
func TestCatalogWatchEnds(t *testing.T) {
	address := postgrestest.Database(t)
	p, through := postgrestest.Proxy(t, address)
	c := open(t, postgres.Config{Address: through})
	for name, end := range map[string]func(){"cut": p.Cut, "mute": func() { p.LoseAnswers(true) }} {
		_, ended := watching(t, c)
		began := time.Now()
		end()
		select {
		case err := <-ended:
			postgrestest.WantError(t, err, sluice.ErrUnavailable)
			t.Logf("%s: noticed after %s: %v", name, time.Since(began).Round(time.Millisecond), err)
		case <-time.After(time.Minute):
			t.Fatalf("%s: it watches nothing and does not notice", name)
		}
		p.LoseAnswers(false)
	}
	_, ended := watching(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
