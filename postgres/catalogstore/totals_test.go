package catalogstore_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestTotalsOfAnOlderSchema migrates a schema from before there were totals,
// which a node of that time goes on using.
func TestTotalsOfAnOlderSchema(t *testing.T) {
	address := postgrestest.Database(t)
	open := func() *catalogstore.Store {
		c, err := catalogstore.Open(t.Context(), postgres.Config{Address: address})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // it is over
		return c
	}
	open()
	postgrestest.Exec(t, address, `
		DROP TABLE sluice.catalog_series, sluice.catalog_bin CASCADE;
		DROP FUNCTION sluice.catalog_add_usage_v2, sluice.catalog_add_usage_v3, sluice.catalog_remove_usage_v1,
			sluice.catalog_keep_series_v1, sluice.catalog_end_series_v1;
		CREATE TABLE sluice.catalog_usage (
			namespace text COLLATE "C" NOT NULL, span text COLLATE "C" NOT NULL, entity text COLLATE "C" NOT NULL,
			resource text COLLATE "C" NOT NULL, lim text COLLATE "C" NOT NULL,
			start bigint NOT NULL, amount bigint NOT NULL, count bigint NOT NULL,
			PRIMARY KEY (namespace, span, entity, resource, lim, start)
		);
		CREATE VIEW sluice.catalog_usage_indexed AS
		SELECT namespace COLLATE "POSIX" AS namespace, span COLLATE "POSIX" AS span, entity COLLATE "POSIX" AS entity,
		    resource COLLATE "POSIX" AS resource, lim COLLATE "POSIX" AS lim, start, amount, count
		FROM sluice.catalog_usage;
		ALTER TABLE sluice.slot_plan DROP COLUMN dispatched;
		DROP INDEX sluice.slot_failed;
		ALTER TABLE sluice.slot DROP COLUMN sent;
		ALTER TABLE sluice.slot_version DROP COLUMN target;
		DROP FUNCTION sluice.settle_v3;
		DELETE FROM sluice.migration WHERE version >= 30;
		INSERT INTO sluice.catalog_usage VALUES
			('n', 'hour', 'alice', 'api', 'rpm', 90000, 1000, 1), ('n', 'day', 'alice', 'api', 'rpm', 86400, 5000, 3),
			('n', 'day', 'alice', 'api', 'rpm', 172800, 7000, 4), ('n', 'day', 'bob', 'api', 'rpm', 172800, 1000, 1)`)
	c := open()
	totals := func() map[string]catalog.UsageRow {
		rows, err := c.Totals(t.Context(), "n", []catalog.Series{{Entity: "alice", Resource: "api", Limit: "rpm"}, {Entity: "bob", Resource: "api", Limit: "rpm"}})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]catalog.UsageRow{}
		for _, r := range rows {
			all[r.Entity] = r
		}
		return all
	}
	got := totals()
	if a, b := got["alice"], got["bob"]; a.Amount != 12000 || a.Count != 7 || b.Amount != 1000 || !a.Last.IsZero() {
		t.Errorf("totals are %+v, want the sums of the days, and nobody knows when they were last taken", got)
	}
	for range 2 { // the second is a repetition
		postgrestest.Exec(t, address, `SELECT sluice.catalog_add_usage_v1('100', 'an old node', 1, '{n,n}', '{day,hour}', '{alice,alice}', '{api,api}', '{rpm,rpm}',
			'{172800,172800}', '{3000,3000}', '{2,2}')`)
	}
	if a := totals()["alice"]; a.Amount != 15000 || a.Count != 9 || time.Since(a.Last).Abs() > time.Hour {
		t.Errorf("after an older node has added to it, a total is %+v, want 15000 in 9", a)
	}
	if n := postgrestest.Number(t, address, "SELECT sum(amount)::bigint FROM sluice.catalog_usage WHERE span = 'day' AND entity = 'alice'"); n != 15000 {
		t.Errorf("alice's days are %d, want 15000", n)
	}
	// It reads and removes usage as it did.
	const old = `namespace = 'n' AND span = 'day' AND entity = 'alice'`
	for _, from := range []string{"catalog_usage", "catalog_usage_indexed"} {
		postgrestest.Exec(t, address, `DELETE FROM sluice.catalog_usage x USING (
			SELECT namespace, span, entity, resource, lim, start FROM sluice.`+from+` WHERE `+old+` ORDER BY start LIMIT 1 FOR UPDATE
		) gone WHERE x.namespace = gone.namespace COLLATE "C" AND x.span = gone.span COLLATE "C" AND x.entity = gone.entity COLLATE "C"
			AND x.resource = gone.resource COLLATE "C" AND x.lim = gone.lim COLLATE "C" AND x.start = gone.start`)
	}
	if n := postgrestest.Number(t, address, "SELECT count(*) FROM sluice.catalog_usage WHERE "+old); n != 0 {
		t.Errorf("%d days of alice are left, want none", n)
	}
}
