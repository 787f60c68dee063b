package onpostgres

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/postgres/limitstore"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// Both sides must really limit, or their speed means nothing.
func TestSidesLimit(t *testing.T) {
	ctx := t.Context()
	doc, err := openDocument(ctx, postgrestest.Database(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer doc.pool.Close()
	doc.burst = 5
	store, err := limitstore.Open(context.WithoutCancel(ctx), postgres.Config{Address: postgrestest.Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // the database goes away
	for _, side := range []contest.Contender{
		{Name: documentName, Caller: doc.caller},
		{Name: sluiceName, Caller: sluiceCaller(store, sluice.Per(1, time.Hour).WithBurst(5))},
	} {
		takes := []contest.Take{side.Caller(), side.Caller()}
		for _, key := range []string{"a", "b"} {
			for i := range 8 {
				ok, err := takes[i%2](key)
				if err != nil {
					t.Fatalf("%s: %v", side.Name, err)
				}
				if want := i < 5; ok != want {
					t.Errorf("%s: key %s, take %d: allowed %t, want %t", side.Name, key, i+1, ok, want)
				}
			}
		}
	}
}

func TestQuickRunMeasuresBothScenarios(t *testing.T) {
	s, err := Run(Quick(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Claims) != 2 || len(s.Tables) != 1 || len(s.Tables[0].Rows) != 2 {
		t.Errorf("got %+v", s)
	}
}
