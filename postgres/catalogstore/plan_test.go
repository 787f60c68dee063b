package catalogstore_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// loadCatalog fills namespace "small" with a thousand rows of usage and two
// thousand records, and "big" with a hundred thousand entities with limits and
// a million rows of usage, all of the same shape. The tables are not logged and
// get their indexes at the end, which is many times faster.
const loadCatalog = `
DO $$
DECLARE
    indexes text[];
    command text;
BEGIN
    SET LOCAL maintenance_work_mem = '512MB';
    SET LOCAL max_parallel_maintenance_workers = 0;
    ALTER TABLE sluice.catalog_record SET UNLOGGED;
    ALTER TABLE sluice.catalog_event SET UNLOGGED;
    ALTER TABLE sluice.catalog_series SET UNLOGGED;
    ALTER TABLE sluice.catalog_bin SET UNLOGGED;
    SELECT array_agg(indexdef) INTO indexes FROM pg_indexes
    WHERE schemaname = 'sluice' AND tablename IN ('catalog_record', 'catalog_event', 'catalog_series', 'catalog_bin');
    ALTER TABLE sluice.catalog_record DROP CONSTRAINT catalog_record_pkey;
    ALTER TABLE sluice.catalog_event DROP CONSTRAINT catalog_event_pkey;
    ALTER TABLE sluice.catalog_series DROP CONSTRAINT catalog_series_pkey, DROP CONSTRAINT catalog_series_names;
    ALTER TABLE sluice.catalog_bin DROP CONSTRAINT catalog_bin_pkey;
    DROP INDEX sluice.catalog_record_under, sluice.catalog_record_tier, sluice.catalog_record_source, sluice.catalog_record_key,
        sluice.catalog_event_subject, sluice.catalog_series_resource, sluice.catalog_bin_old;

    -- Every second entity has one parent, tier and source, and every
    -- thousandth another.
    INSERT INTO sluice.catalog_record (namespace, kind, id, sub, version, under, tier, source, data)
    SELECT n.name, k.kind, 'e' || 100000 + i, '', i, b.by, b.by, b.by, '{}'
    FROM (VALUES ('small', 1000), ('big', 100000)) n (name, rows), generate_series(1, n.rows) i,
        (VALUES ('entity'), ('entity-limits')) k (kind),
        LATERAL (SELECT CASE WHEN i % 2 = 0 THEN 'many' WHEN i % 1000 = 1 THEN 'few' ELSE '' END) b (by);
    INSERT INTO sluice.catalog_event (namespace, id, subject, data)
    SELECT n.name, 100000 + i, CASE WHEN i % 1000 = 1 THEN 'few' ELSE 'many' END, '{}'
    FROM (VALUES ('small', 1000), ('big', 100000)) n (name, rows), generate_series(1, n.rows) i;
    INSERT INTO sluice.catalog_node SELECT 'node ' || i, 1, now() FROM generate_series(1, 1000) i;

    -- Half of "small" is one entity with 10 series of 50 hours; in "big" it has
    -- 10000 hours. The others are active in one of 20 hours each. Nearly all
    -- comes in the order of all indexes, which makes them fast.
    CREATE TEMPORARY TABLE usage ON COMMIT DROP AS
    SELECT n.name AS namespace, u.*
    FROM (VALUES ('big', 900000, 10000), ('small', 500, 50)) n (name, entities, hours), LATERAL (
        SELECT 'e' || 1000000 + i, 'r', 'rpm', i / (n.entities / 20) FROM generate_series(0, n.entities - 1) i
        UNION ALL
        SELECT 'whale', 'w' || i / n.hours / 2, CASE i / n.hours % 2 WHEN 0 THEN 'rpm' ELSE 'tpm' END, i % n.hours
        FROM generate_series(0, n.hours * 10 - 1) i
    ) u (entity, resource, lim, h);
    INSERT INTO sluice.catalog_series (namespace, entity, resource, lim)
    SELECT DISTINCT namespace, entity, resource, lim FROM usage ORDER BY 1, 2, 3, 4;
    INSERT INTO sluice.catalog_bin (series, span, start, amount, count, last)
    SELECT s.id, 'hour', 3600 * u.h, 1000, 1, 0 FROM usage u JOIN sluice.catalog_series s
    ON (s.namespace, s.entity, s.resource, s.lim) = (u.namespace, u.entity, u.resource, u.lim) ORDER BY s.id, u.h;
    FOREACH command IN ARRAY indexes LOOP
        EXECUTE command;
    END LOOP;
END $$;`

// hour is a beginning of an hour as it is loaded.
func hour(n int) time.Time { return time.Unix(3600*int64(n), 0) }

// listCall is a list call, the index that it must follow, and how many pages
// of tables and indexes it may read.
type listCall struct {
	index string
	pages int
	query any
}

// listCalls are all kinds of list calls in the namespace "big", from the
// beginning and from deep within.
func listCalls() map[string]listCall {
	const namespace = "big"
	calls := map[string]listCall{}
	size := struct{ records, hours, entities int }{100_000, 10_000, 900_000}
	number := func(n int) string { return strconv.Itoa(100_000 + n) }
	for _, deep := range []bool{false, true} {
		add := func(what, index string, pages int, query any) {
			if deep {
				what += ", deep"
			}
			calls[what] = listCall{index, pages, query}
		}
		at := func(parts ...string) string {
			if !deep {
				return ""
			}
			return catalog.EncodeCursor(parts...)
		}
		const list = 80 // 51 rows wherever they are, and steps down to them
		records := catalog.ListQuery{Namespace: namespace, Kind: catalog.KindEntity, Max: 50, Cursor: at("e"+number(size.records-200), "")}
		add("records", "catalog_record_pkey", list, records)
		by := records
		by.Kind, by.ID, by.Cursor = catalog.KindEntityLimits, "e"+number(1), at("e"+number(1), "")
		add("records by id", "catalog_record_pkey", list, by)
		events := catalog.EventQuery{Namespace: namespace, Max: 50, Cursor: at(number(size.records / 2))}
		add("events", "catalog_event_pkey", list, events)
		events.Newest = true
		add("events, newest first", "catalog_event_pkey", list, events)
		for _, value := range []string{"many", "few"} {
			by := records
			by.Under = value
			add("records under "+value, "catalog_record_under", list, by)
			by.Under, by.Tier = "", value
			add("records of tier "+value, "catalog_record_tier", list, by)
			by.Tier, by.Source = "", value
			add("records of source "+value, "catalog_record_source", list, by)
			events := events
			events.Subject = value
			add("events of "+value+", newest first", "catalog_event_subject", list, events)
			events.Newest = false
			add("events of "+value, "catalog_event_subject", list, events)
			events.From, events.To = number(100), number(size.records-100)
			add("events of "+value+" in a time", "catalog_event_subject", list, events)
		}

		// Sums read up to 5 rows of each of 51 series, or look for rows in a
		// thousand series.
		const sum, sparse = 51 * (5 + 12), 1000 * 12
		all := catalog.UsageQuery{Namespace: namespace, Span: catalog.Hourly, From: hour(0), To: hour(size.hours), Max: 50}
		late := all
		late.From = hour(size.hours - 5)
		hours := func(n int) string { return strconv.FormatInt(hour(n).Unix(), 10) }
		for what, q := range map[string]catalog.UsageQuery{"usage": all, "late usage": late} {
			q.Entity, q.Cursor = "whale", at("w4", "rpm", hours(size.hours-2))
			add(what+" of an entity", "catalog_series_names", 2*list, q)
			q.Resource = "w4"
			add(what+" of both", "catalog_series_names", 2*list, q)
		}
		late.Entity, late.Cursor = "whale", at("whale", "w2", "tpm")
		add("sums of an entity", "catalog_series_names", sum, catalogstore.Sum(late))
		late.Resource = "w4"
		add("sums of both", "catalog_series_names", sum, catalogstore.Sum(late))

		all.To = hour(20)
		late = all
		late.From = hour(15)
		middle := fmt.Sprintf("e%d", 1_000_000+size.entities/2)
		for what, q := range map[string]catalog.UsageQuery{"usage": all, "late usage": late} {
			most := map[string]int{"usage": sum, "late usage": sparse}[what]
			q.Resource, q.Cursor = "r", at(middle, "rpm", hours(16))
			add(what+" of a resource", "catalog_series_resource", most, q)
			q.Cursor = at(middle, "r", "rpm")
			add("sums of "+what+" of a resource", "catalog_series_resource", most, catalogstore.Sum(q))
			q.Resource = ""
			add("sums of "+what, "catalog_series_names", most, catalogstore.Sum(q))
		}
	}
	return calls
}

var (
	// Sums leave out series without rows by what they have counted.
	badPlan = regexp.MustCompile(`Seq Scan|Sort|Bitmap|Materialize|Hash|Filter: [^\n]*\b(namespace|kind|id|sub|under|tier|source|subject|span|entity|resource|lim|start)\b|Rows Removed by Index`)
)

// TestCatalogPlans looks at the plan of every list call, and at how many pages
// of tables and indexes it reads among a million rows.
func TestCatalogPlans(t *testing.T) {
	address := postgrestest.Database(t)
	c := open(t, postgres.Config{Address: address, MaxConns: 2})
	began := time.Now()
	postgrestest.Exec(t, address, loadCatalog)
	t.Logf("loaded in %s", time.Since(began).Round(time.Millisecond))
	check := func(t *testing.T) {
		for what, call := range listCalls() {
			plan, err := catalogstore.Explain(t.Context(), c, call.query)
			if err != nil {
				t.Fatal(what, err)
			}
			if bad := badPlan.FindString(plan); bad != "" || !strings.Contains(plan, "using "+call.index+" ") {
				t.Errorf("%s: want a scan of %s and no %q:\n%s", what, call.index, bad, plan)
			}
			if n := postgrestest.Pages(plan); n > call.pages {
				t.Errorf("%s: %d pages were read, want at most %d:\n%s", what, n, call.pages, plan)
			}
		}
		for index, p := range map[string]catalog.Purge{
			"catalog_series_names":  {Target: catalog.PurgeUsage, Entity: "whale"},
			"catalog_bin_old":       {Target: catalog.PurgeUsage, Span: catalog.Hourly, Before: hour(3)},
			"catalog_event_pkey":    {Target: catalog.PurgeEvents, BeforeID: "100100"},
			"catalog_event_subject": {Target: catalog.PurgeEvents, Entity: "few"},
			"catalog_record_pkey":   {Target: catalog.PurgeRecords},
		} {
			if p.Max = 1000; p.Before.IsZero() {
				p.Namespace = "big"
			}
			plan, err := catalogstore.Explain(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			if bad := badPlan.FindString(plan); bad != "" || !strings.Contains(plan, "using "+index+" ") {
				t.Errorf("purge: want a scan of %s and no %q:\n%s", index, bad, plan)
			}
		}
	}
	t.Run("without statistics", check)
	postgrestest.Exec(t, address, "ANALYZE sluice.catalog_record, sluice.catalog_event, sluice.catalog_series, sluice.catalog_bin, sluice.catalog_node")
	t.Run("with statistics", check)
	t.Run("sums among series without rows", func(t *testing.T) { sumSparsely(t, c) })
}

// sumSparsely begins 1500 series before the first that has rows: the first page
// is empty, but not the last.
func sumSparsely(t *testing.T, c *catalogstore.Store) {
	q := catalog.UsageQuery{
		Namespace: "big", Resource: "r", Span: catalog.Hourly, From: hour(15), To: hour(20), Max: 50,
		Cursor: catalog.EncodeCursor("e1673499", "r", "rpm"),
	}
	list := q
	list.Cursor = catalog.EncodeCursor("e1673499", "rpm", "0")
	for _, want := range []int{0, 50} {
		page, err := c.Usage(t.Context(), list)
		if err != nil || len(page.Rows) != want || page.Next == "" {
			t.Fatalf("got %d rows, next %q, error %v, want %d and another page", len(page.Rows), page.Next, err, want)
		}
		list.Cursor = page.Next
	}
	page, err := c.SumUsage(t.Context(), q)
	if err != nil || len(page.Rows) != 0 || page.Next == "" {
		t.Fatalf("got %d rows, next %q, error %v, want none and another page", len(page.Rows), page.Next, err)
	}
	q.Cursor = page.Next
	page, err = c.SumUsage(t.Context(), q)
	if err != nil || len(page.Rows) != 50 || page.Next == "" || page.Rows[0].Entity != "e1675000" || page.Rows[49].Entity != "e1675049" {
		t.Fatalf("got %+v, next %q, error %v, want 50 from e1675000 on", page.Rows, page.Next, err)
	}
	q.Cursor = catalog.EncodeCursor("e1899989", "r", "rpm")
	page, err = c.SumUsage(t.Context(), q)
	if err != nil || len(page.Rows) != 10 || page.Next != "" {
		t.Fatalf("got %d rows, next %q, error %v, want the last 10", len(page.Rows), page.Next, err)
	}
}

// TestCatalogRoundTrips counts how often a call waits for the database.
func TestCatalogRoundTrips(t *testing.T) {
	address := postgrestest.Database(t)
	ctx := context.Background()
	batch := &catalog.Batch{Namespace: "n", Mutations: []catalog.Mutation{
		{Record: catalog.Record{RecordKey: catalog.RecordKey{Namespace: "n", Kind: catalog.KindEntity, ID: "alice"}, Under: "team", Data: []byte(`{}`)}, If: catalog.IfAny},
		{Record: catalog.Record{RecordKey: catalog.RecordKey{Namespace: "n", Kind: catalog.KindEntity, ID: "team"}, Tier: "pro", Data: []byte(`{}`)}, If: catalog.IfAny},
	}}
	for name, call := range map[string]func(c *catalogstore.Store) error{
		"resolve": func(c *catalogstore.Store) error {
			_, err := c.Resolve(ctx, catalog.ResolveQuery{Namespace: "n", Entity: "alice", Tier: "gold", Resource: "api"})
			return err
		},
		"change": func(c *catalogstore.Store) error { _, err := c.Change(ctx, batch); return err },
		"usage": func(c *catalogstore.Store) error {
			return c.AddUsage(ctx, &catalog.UsageBatch{Node: "n", Seq: 1, Rows: []catalog.UsageRow{{Namespace: "n", Start: hour(1)}}})
		},
	} {
		var wire bytes.Buffer
		c := open(t, postgres.Config{Address: address, MaxConns: 2})
		if err := catalogstore.Trace(ctx, c, &wire); err != nil {
			t.Fatal(err)
		}
		if err := call(c); err != nil { // the first on this connection
			t.Fatal(err)
		}
		if trips := roundTrips(wire.String()); trips != 1 {
			t.Errorf("%s: %d round trips, want 1:\n%s", name, trips, &wire)
		}
	}
}

// roundTrips is how often messages to the server are followed by answers.
func roundTrips(wire string) (n int) {
	asking := false
	for line := range strings.Lines(wire) {
		switch line[0] {
		case 'F':
			asking = true
		case 'B':
			if asking {
				n++
			}
			asking = false
		}
	}
	return n
}
