package limitstore_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// version13 is a database that a Sluice of version 13 has made, the last one
// whose functions are all called _v1.
func version13(t *testing.T) (address string) {
	t.Helper()
	f, err := os.Open("testdata/version13.sql.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sql, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	address = postgrestest.Database(t)
	postgrestest.Exec(t, address, string(sql))
	return address
}

// older calls what a node of version 13 calls, on a bucket of 1/hour burst 10.
type older struct {
	t    *testing.T
	conn *pgx.Conn
	now  int64
}

const hourly = "1/hour burst 10"

func (o *older) plain(entity string, tokens int64) bool {
	o.t.Helper()
	var outcome int64
	err := o.conn.QueryRow(context.Background(), `SELECT outcomes[1] FROM sluice.take_plain_v1($1, NULL, false,
		ARRAY[''], ARRAY[$2], ARRAY['api'], ARRAY['rps'], ARRAY[1],
		ARRAY[0::smallint], ARRAY[1000::bigint], ARRAY[3600000000], ARRAY[10000::bigint],
		ARRAY[1::bigint], ARRAY[3600000::bigint], ARRAY[10000::bigint],
		NULL, ARRAY[1], ARRAY[$3::bigint])`, o.now, entity, 1000*tokens).Scan(&outcome)
	if err != nil {
		o.t.Fatal(err)
	}
	return outcome >= 0
}

// general takes with a lease if id is not empty.
func (o *older) general(entity, id string, tokens int64) bool {
	o.t.Helper()
	var verdict int16
	err := o.conn.QueryRow(context.Background(), `SELECT verdicts[1] FROM sluice.take_v1($1, NULL, false,
		ARRAY[''], ARRAY[$2], ARRAY['api'], ARRAY['rps'],
		ARRAY[0::smallint], ARRAY[1000::bigint], ARRAY[3600000000], ARRAY[10000::bigint],
		ARRAY[0::smallint], ARRAY[''], NULL,
		ARRAY[1], ARRAY[CASE WHEN $3 = '' THEN 0 ELSE 4 END::smallint], ARRAY[0::bigint], ARRAY[60000000::bigint], ARRAY[$3], ARRAY['\x00'::bytea],
		ARRAY[1], ARRAY[1], ARRAY[$4::bigint], ARRAY[0::smallint])`, o.now, entity, id, 1000*tokens).Scan(&verdict)
	if err != nil {
		o.t.Fatal(err)
	}
	return verdict == 1
}

func (o *older) release(id string) {
	o.t.Helper()
	var status int16
	err := o.conn.QueryRow(context.Background(), `SELECT statuses[1] FROM sluice.settle_v1($1, NULL,
		ARRAY[$2], ARRAY[3::smallint], ARRAY[0::bigint], ARRAY[0], NULL, NULL, NULL)`, o.now, id).Scan(&status)
	if err != nil || status != 0 {
		o.t.Fatal(status, err)
	}
}

func (o *older) sweep() {
	o.t.Helper()
	if _, err := o.conn.Exec(context.Background(), "SELECT * FROM sluice.sweep_v1($1, 2000, '0 s')", o.now); err != nil {
		o.t.Fatal(err)
	}
}

// TestUpgrade has nodes of two versions share what the older one has made.
func TestUpgrade(t *testing.T) {
	address := version13(t)
	now := time.Date(2026, 3, 11, 10, 20, 30, 0, time.UTC)
	old := &older{t, postgrestest.Connect(t, address), now.UnixMicro()}
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: allowed is %t, want %t", what, got, want)
		}
	}
	want("before the upgrade, plain", old.plain("a", 4), true)
	want("before the upgrade, with a lease", old.general("a", "lease of the older", 4), true)

	s := open(t, postgres.Config{Address: address, Clock: func() time.Time { return now }})
	if n := postgrestest.Number(t, address, "SELECT oldest FROM sluice.migration ORDER BY version DESC LIMIT 1"); n != 1 {
		t.Errorf("after the upgrade a node has to know version %d, want 1", n)
	}
	l := sluice.New(s)
	ctx := context.Background()
	take(t, s, demand("a", hourly, 3), false)
	take(t, s, demand("a", hourly, 2), true)
	want("full, plain", old.plain("a", 1), false)
	want("full", old.general("a", "", 1), false)
	if _, err := l.Settle(ctx, sluice.Settlement{ID: "lease of the older", Action: sluice.Release}); err != nil {
		t.Fatal(err)
	}
	want("after the newer has released", old.plain("a", 4), true)

	lease, _, err := l.Acquire(ctx, sluice.Take{ID: "lease of the newer", Demands: []sluice.Demand{demand("b", hourly, 10)}})
	if err != nil || lease == nil {
		t.Fatal(lease, err)
	}
	want("what a lease of the newer took", old.general("b", "", 1), false)
	old.release("lease of the newer")
	take(t, s, demand("b", hourly, 10), true)

	// Each leaves the other's holds and marks in their place.
	id := sluice.HoldID{Node: 1, Seq: 1}
	hold := sluice.HoldRequest{Key: demand("c", hourly, 0).Key, Limit: sluice.MustParse(hourly), ID: id, Max: sluice.Tokens(6), TTL: time.Minute}
	grants := make([]sluice.Grant, 1)
	if err := s.Hold(ctx, []sluice.HoldRequest{hold}, grants); err != nil || grants[0].Amount.Thousandths() != 6*sluice.Token {
		t.Fatal(grants, err)
	}
	want("above what is not held", old.general("c", "", 5), false)
	want("what is not held", old.general("c", "", 4), true)
	old.sweep()
	take(t, s, demand("c", hourly, 1), false)
	if err := s.Return(ctx, []sluice.HoldReturn{{Key: hold.Key, Limit: hold.Limit, ID: id}}); err != nil {
		t.Fatal(err)
	}
	take(t, s, demand("c", hourly, 6), true)

	// Tickets mean nothing to the older, which leaves them there.
	take(t, s, demand("d", hourly, 10), true)
	waiting := sluice.Take{Demands: []sluice.Demand{demand("d", hourly, 3)}, Ticket: sluice.Ticket{ID: id}}
	var d sluice.Decision
	if err := l.Decide(ctx, &waiting, &d); err != nil || d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	if _, err := l.Adjust(ctx, demand("d", hourly, -4)); err != nil {
		t.Fatal(err)
	}
	take(t, s, demand("d", hourly, 2), false)
	want("past who waits", old.general("d", "", 1), true)
	want("past who waits, plain", old.plain("d", 1), true)
	old.sweep()
	take(t, s, demand("d", hourly, 1), false)
	if _, err := l.Adjust(ctx, demand("d", hourly, -1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(ctx, &waiting, &d); err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
}

// TestNewSchemaHasOnlyWhatIsCalled: no functions of older versions, which are
// therefore refused.
func TestNewSchemaHasOnlyWhatIsCalled(t *testing.T) {
	address := postgrestest.Database(t)
	open(t, postgres.Config{Address: address})
	if n := postgrestest.Number(t, address, "SELECT count(*) FROM pg_proc WHERE proname IN ('take_v1', 'take_plain_v1', 'settle_v1', 'view_v1')"); n != 0 {
		t.Errorf("there are %d functions that only older nodes call", n)
	}
	if n := postgrestest.Number(t, address, "SELECT max(version) - min(oldest) FROM sluice.migration"); n != 0 {
		t.Errorf("a node may be %d versions older, want 0", n)
	}
}
