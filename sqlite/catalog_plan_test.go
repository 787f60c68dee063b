package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// statement is one that a list call sends.
type statement struct {
	name string
	sql  string
	args []any
}

// statements are all that list calls send: each selection, from the beginning
// and from a cursor.
func statements(t *testing.T) (all []statement) {
	t.Helper()
	add := func(name, sql string, args []any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, statement{name, sql, args})
	}
	for _, cursor := range []string{"", catalog.EncodeCursor("entity-00500", "")} {
		for name, q := range map[string]catalog.ListQuery{
			"all": {}, "id": {ID: "entity-00500"}, "under": {Under: "parent-1"}, "tier": {Tier: "tier-1"}, "source": {Source: "file"},
		} {
			q.Namespace, q.Kind, q.Cursor, q.Max = "n", catalog.KindEntity, cursor, 100
			s, args, err := listStatement(q)
			add("records by "+name, s, args, err)
		}
	}
	for _, cursor := range []string{"", catalog.EncodeCursor("0000000000000100")} {
		for _, subject := range []string{"", "entity-00500"} {
			for _, newest := range []bool{false, true} {
				s, args, err := eventsStatement(catalog.EventQuery{Namespace: "n", Subject: subject, From: "0", To: "f", Newest: newest, Cursor: cursor, Max: 100})
				add(fmt.Sprintf("events of %q, newest %t", subject, newest), s, args, err)
			}
		}
	}
	for i, cursor := range []string{"", catalog.EncodeCursor("0", "a", "rpm"), catalog.EncodeCursor("entity-00500", "api", "rpm")} {
		for _, q := range []catalog.UsageQuery{{Entity: "entity-00500"}, {Resource: "api"}, {Entity: "entity-00500", Resource: "api"}, {}} {
			q.Namespace, q.Span, q.From, q.To, q.Cursor, q.Max = "n", catalog.Hourly, march, march.AddDate(1, 0, 0), cursor, 100
			if i < 2 && q.Entity+q.Resource != "" {
				s, args, err := usageStatement(q)
				add(fmt.Sprintf("usage of %q %q", q.Entity, q.Resource), s, args, err)
			}
			if i != 1 {
				s, args, err := sumStatement(q)
				add(fmt.Sprintf("sums of %q %q", q.Entity, q.Resource), s, args, err)
			}
		}
	}
	for name, p := range map[string]catalog.Purge{
		"usage": {}, "an entity's usage": {Entity: "entity-00500"}, "old usage": {Span: catalog.Hourly, Before: march}, "old totals": {Span: catalog.Total, Before: march},
		"events": {Target: catalog.PurgeEvents}, "an entity's events": {Target: catalog.PurgeEvents, Entity: "entity-00500"},
		"records": {Target: catalog.PurgeRecords}, "nodes": {Target: catalog.PurgeNodes, Before: march},
	} {
		p.Namespace = "n"
		for _, s := range purgeStatements(p) {
			add("purge "+name, s.statement, append(s.args, 100), nil)
		}
	}
	totals, args := totalsStatement("n", []catalog.Series{{Entity: "entity-00500", Resource: "api", Limit: "rpm"}, {Entity: "entity-00501", Resource: "api", Limit: "rpm"}})
	add("totals", totals, args, nil)
	add("resolve", resolveStatement, []any{"n", "entity-00500", "tier-1", "api", catalog.MaxDepth}, nil)
	return all
}

// TestPlans asks SQLite how it would answer every list call: by an index that
// has the right order, never by reading a whole table or sorting.
func TestPlans(t *testing.T) {
	db := fill(t, 100)
	for _, s := range statements(t) {
		rows, err := db.reading.Query("EXPLAIN QUERY PLAN "+s.sql, s.args...)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
			scan := strings.HasPrefix(detail, "SCAN ") && strings.Contains(detail, "catalog_")
			// What resolving scans is the handful of rows that it made itself.
			if scan || strings.Contains(detail, "TEMP B-TREE") && s.name != "resolve" {
				t.Errorf("%s: %s\n%s", s.name, detail, s.sql)
			}
		}
		if rows.Err() != nil || len(plan) == 0 {
			t.Errorf("%s: %v, %v", s.name, plan, rows.Err())
		}
	}
}

// fill makes a catalog of n entities, each with limits, an event and ten rows
// of usage, in one transaction.
func fill(t testing.TB, n int) *DB {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	err = db.write(t.Context(), func(tx *sql.Tx) error {
		series := func(from, to int) string {
			return fmt.Sprintf("(WITH RECURSIVE s (value) AS (SELECT %d UNION ALL SELECT value + 1 FROM s WHERE value < %d) SELECT value FROM s)", from, to)
		}
		for _, s := range []string{
			`INSERT INTO catalog_record (namespace, kind, id, sub, version, under, tier, source, data)
				SELECT 'n', 'entity', printf('entity-%05d', value), '', 1, 'parent-' || (value % 10), 'tier-' || (value % 10), 'file', CAST('{"name":"somebody"}' AS BLOB)
				FROM ` + series(1, n),
			`INSERT INTO catalog_record (namespace, kind, id, sub, version, under, tier, source, data)
				SELECT 'n', 'entity-limits', printf('entity-%05d', value), 'api', 1, 'api', '', '', CAST('{"limits":{"rpm":{"limit":"100/minute"}}}' AS BLOB)
				FROM ` + series(1, n),
			`INSERT INTO catalog_event SELECT 'n', printf('%016x', value), printf('entity-%05d', value), CAST('{}' AS BLOB) FROM ` + series(1, n),
			`INSERT INTO catalog_usage SELECT 'n', 'hour', printf('entity-%05d', value / 10), 'api', 'rpm', 1772323200 + 3600 * (value % 10), 1000, 1, 0
				FROM ` + series(10, 10*n+9),
			"ANALYZE",
		} {
			if _, err := tx.ExecContext(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestPagesCostTheSameHoweverManyThereAre compares the time of one page of
// every list call in a small and in a large catalog.
func TestPagesCostTheSameHoweverManyThereAre(t *testing.T) {
	small, large, samples := 1000, 11_000, 9
	if raceEnabled { // then the database is many times slower, and times say nothing
		small, large, samples = 100, 200, 1
	}
	median := func(db *DB, s statement) time.Duration {
		times := make([]time.Duration, samples)
		for i := range times {
			began := time.Now()
			rows, err := db.reading.Query(s.sql, s.args...)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
			}
			if err := rows.Close(); err != nil {
				t.Fatal(err)
			}
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	few, many := fill(t, small), fill(t, large)
	var sumFew, sumMany time.Duration
	for _, s := range statements(t) {
		if strings.HasPrefix(s.name, "purge") {
			continue
		}
		a, b := median(few, s), median(many, s)
		sumFew, sumMany = sumFew+a, sumMany+b
		t.Logf("%-40s %8s with %d entities, %8s with %d", s.name, a.Round(time.Microsecond), small, b.Round(time.Microsecond), large)
		if b > 5*a+20*time.Millisecond {
			t.Errorf("%s: a page takes %s with %d entities and %s with %d", s.name, a, small, b, large)
		}
	}
	t.Logf("all pages: %s with %d rows of usage, %s with %d", sumFew.Round(time.Microsecond), 10*small, sumMany.Round(time.Microsecond), 10*large)
}
