package slots

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// The other side must really keep to its maximum, or its speed means nothing.
func TestSequenceKeepsToItsMaximum(t *testing.T) {
	ctx := t.Context()
	address := postgrestest.Database(t)
	doc, err := openDocument(context.WithoutCancel(ctx), address, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer doc.pool.Close()
	at := time.Now().Truncate(4 * time.Second)
	for i := range 8 {
		for range 2 { // the second time changes nothing
			if err := doc.assign(ctx, fmt.Sprint(i), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only for a look
	var windows, most, sum int
	if err := conn.QueryRow(ctx, "SELECT count(*), max(slot_count), sum(slot_count) FROM rate_limit_window_counter").Scan(&windows, &most, &sum); err != nil {
		t.Fatal(err)
	}
	if windows != 3 || most != 3 || sum != 8 {
		t.Errorf("%d windows, at most %d events in one, %d in all", windows, most, sum)
	}
}

func TestQuickRunMeasuresEverything(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 5 || len(s.Tables) != 2 || len(s.Tables[0].Rows) != 3 {
		t.Errorf("got %+v", s)
	}
}
