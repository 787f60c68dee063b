package replaystore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/idempotency/idempotencytest"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/postgres/replaystore"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func open(tb testing.TB, config postgres.Config) *replaystore.Store {
	tb.Helper()
	r, err := replaystore.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

func TestReplaysConformance(t *testing.T) {
	address := postgrestest.Database(t)
	open(t, postgres.Config{Address: address})
	idempotencytest.Config{}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		postgrestest.Exec(tb, address, "TRUNCATE sluice.replay, sluice.replay_figure")
		return open(tb, postgres.Config{Address: address, Clock: now, Timeout: 20 * time.Second})
	})
}

// A newer node has added a column; this one goes on as before.
func TestReplaysBesideANewerNode(t *testing.T) {
	address := postgrestest.Database(t)
	r := open(t, postgres.Config{Address: address})
	c := &idempotency.Claim{
		Scope: idempotency.Scope{Tenant: "acme", Method: "POST", Route: "/orders", Key: "k"},
		Token: idempotency.NewToken(), Life: time.Minute, TTL: time.Hour,
	}
	claims := func(want idempotency.Verdict) idempotency.Answer {
		t.Helper()
		a, err := r.Claim(t.Context(), c)
		if err != nil || a.Verdict != want {
			t.Fatalf("claim: %s, %v, want %s", a.Verdict, err, want)
		}
		return a
	}
	claims(idempotency.Claimed)
	postgrestest.Exec(t, address, "ALTER TABLE sluice.replay ADD COLUMN colour text NOT NULL DEFAULT 'red'")
	err := r.Finish(t.Context(), &idempotency.Finish{ID: c.Scope.ID(), Token: c.Token, State: idempotency.Done, Result: []byte("x"), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if a := claims(idempotency.Finished); string(a.Record.Result) != "x" {
		t.Errorf("result %q", a.Record.Result)
	}
	c.Scope.Key = "another"
	claims(idempotency.Claimed)
	if n := postgrestest.Number(t, address, "SELECT count(*) FROM sluice.replay WHERE colour = 'red'"); n != 2 {
		t.Errorf("%d rows have the column's value, want 2", n)
	}
}
