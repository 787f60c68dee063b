package catalogstore

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/sqlite"
)

var march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// statement is one that a list call sends.
type statement struct {
	name string
	sql  string
	args []any
}

// statements are all that list calls send: each selection, from the beginning
// and from a cursor at the entity and the event of a number, in pages of most.
func statements(t *testing.T, db *sqlite.DB, number, most int) (all []statement) {
	t.Helper()
	entity, event := fmt.Sprintf("entity-%05d", number), fmt.Sprintf("%016x", number)
	add := func(name string, s *sqlcatalog.Select, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, statement{name, sqldb.SQLite(s.SQL), s.Args})
	}
	deep := map[bool]string{true: ", deep"}
	for _, cursor := range []string{"", catalog.EncodeCursor(entity, "")} {
		for name, q := range map[string]catalog.ListQuery{
			"all": {}, "id": {ID: entity}, "under": {Under: "parent-1"}, "tier": {Tier: "tier-1"}, "source": {Source: "file"},
		} {
			q.Namespace, q.Kind, q.Cursor, q.Max = "n", catalog.KindEntity, cursor, most
			s, err := sqlcatalog.ListStatement(q)
			add("records by "+name+deep[cursor != ""], s, err)
		}
	}
	for _, cursor := range []string{"", catalog.EncodeCursor(event)} {
		for _, subject := range []string{"", entity} {
			for _, newest := range []bool{false, true} {
				s, err := sqlcatalog.EventsStatement(catalog.EventQuery{Namespace: "n", Subject: subject, From: "0", To: "f", Newest: newest, Cursor: cursor, Max: most})
				add(fmt.Sprintf("events of one %t, newest %t%s", subject != "", newest, deep[cursor != ""]), s, err)
			}
		}
	}
	for i, cursor := range []string{"", catalog.EncodeCursor("api", "rpm", "0"), catalog.EncodeCursor(entity, "api", "rpm")} {
		for _, q := range []catalog.UsageQuery{{Entity: entity}, {Resource: "api"}, {Entity: entity, Resource: "api"}, {}} {
			q.Namespace, q.Span, q.From, q.To, q.Cursor, q.Max = "n", catalog.Hourly, march, march.AddDate(1, 0, 0), cursor, most
			if i < 2 && q.Entity+q.Resource != "" {
				s, err := sqlcatalog.UsageStatement(q)
				add(fmt.Sprintf("usage of an entity %t, a resource %t%s", q.Entity != "", q.Resource != "", deep[cursor != ""]), s, err)
			}
			if i != 1 {
				s, err := sumStatement(q)
				add(fmt.Sprintf("sums of an entity %t, a resource %t%s", q.Entity != "", q.Resource != "", deep[cursor != ""]), s, err)
			}
		}
	}
	for name, p := range map[string]catalog.Purge{
		"usage": {}, "an entity's usage": {Entity: entity}, "old usage": {Span: catalog.Hourly, Before: march},
		"old totals": {Span: catalog.Total, Before: march},
		"events":     {Target: catalog.PurgeEvents}, "an entity's events": {Target: catalog.PurgeEvents, Entity: entity},
		"records": {Target: catalog.PurgeRecords}, "nodes": {Target: catalog.PurgeNodes, Before: march},
	} {
		p.Namespace, p.Max = "n", most
		add("purge "+name, &sqlcatalog.Select{Statement: New(db).PurgeStatement(p)}, nil)
	}
	totals, err := sqlcatalog.TotalsStatement("n", []catalog.Series{{Entity: entity, Resource: "api", Limit: "rpm"}, {Entity: "nobody", Resource: "api", Limit: "rpm"}})
	add("totals", totals, err)
	add("resolve", &sqlcatalog.Select{Statement: sqldb.Do(resolveStatement, "n", entity, "tier-1", "api", catalog.MaxDepth)}, nil)
	return all
}

// TestPlans asks SQLite how it would answer every list call: by an index that
// has the right order, never by reading a whole table or sorting.
func TestPlans(t *testing.T) {
	db := fill(t, 100)
	for _, s := range statements(t, db, 500, 100) {
		rows, err := db.Reader().Query("EXPLAIN QUERY PLAN "+s.sql, s.args...)
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
func fill(t testing.TB, n int) *sqlite.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	// With pages this small, few rows are many pages.
	_, err = raw.ExecContext(t.Context(), "PRAGMA page_size = 512; CREATE TABLE soon (gone); DROP TABLE soon")
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
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
			`INSERT INTO catalog_series SELECT value, 'n', printf('entity-%05d', value), 'api', 'rpm' FROM ` + series(1, n),
			`INSERT INTO catalog_bin SELECT value / 10, 'hour', 1772323200 + 3600 * (value % 10), 1000, 1, 0 FROM ` + series(10, 10*n+9),
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

// TestPagesCostTheSameHoweverManyThereAre compares the work for one page of
// every list call in a small and in a large catalog, in pages of the file that
// SQLite looks at.
func TestPagesCostTheSameHoweverManyThereAre(t *testing.T) {
	const small, large, page = 170, 510, 10 // full pages in both
	db := fill(t, small)
	few, many := pageCounter(t, db), pageCounter(t, fill(t, large))
	costs := func(pages func(statement) int, number int) map[string]int {
		all := map[string]int{}
		for _, s := range statements(t, db, number, page) {
			if !strings.HasPrefix(s.name, "purge") {
				all[s.name] = pages(s)
			}
		}
		return all
	}
	least := costs(few, 50)
	for _, number := range []int{150, 300} { // as deep as in the small one, and deeper
		for name, b := range costs(many, number) {
			a := least[name]
			t.Logf("%-60s %5d pages of the file with %d entities, %5d with %d", name, a, small, b, large)
			if b > 2*a { // the trees may differ a little, but all rows are three times as many
				t.Errorf("%s: a page looks at %d pages of the file with %d entities, and at %d with %d, at %d", name, a, small, b, large, number)
			}
		}
	}
}
