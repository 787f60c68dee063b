package server_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/postgres"
	pgcatalog "github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	pgslots "github.com/sluice-go/sluice/postgres/slotstore"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
	redisreplays "github.com/sluice-go/sluice/redis/replaystore"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/sqlite"
	sqlitecatalog "github.com/sluice-go/sluice/sqlite/catalogstore"
	sqlitereplays "github.com/sluice-go/sluice/sqlite/replaystore"
	sqliteslots "github.com/sluice-go/sluice/sqlite/slotstore"
)

// house is a server on real stores that can be searched.
type house struct {
	*theater
	slots    schedule.Store
	records  catalog.Store
	recorder *catalog.Recorder
	find     func(t *testing.T, text string) []string // everything that has a text in it
}

// furnish is for stage: it replaces all stores.
func (h *house) furnish(t *testing.T, buckets sluice.Store, records catalog.Store, slots schedule.Store, replays idempotency.Store) func(*server.Config) {
	quiet := slog.New(slog.DiscardHandler)
	h.slots, h.records = slots, records
	return func(c *server.Config) {
		c.Catalog = must(catalog.Open(t.Context(), catalog.Config{Store: records, Log: quiet}))(t)
		closes(t, c.Catalog)
		h.recorder = must(catalog.NewRecorder(catalog.RecorderConfig{Store: records, Log: quiet}))(t)
		closes(t, h.recorder)
		c.Slots = must(schedule.New(schedule.Config{Store: slots, Log: quiet}))(t)
		c.Replays = must(idempotency.New(idempotency.Config{Store: replays, Log: quiet}))(t)
		closes(t, c.Replays)
		c.Limiter = sluice.New(buckets, sluice.WithObserver(h.recorder))
		h.keeper, h.catalog, h.limiter = c.Replays, c.Catalog, c.Limiter
	}
}

// open starts the server.
func (h *house) open(t *testing.T, furnish func(*server.Config)) {
	s := stage(t, furnish)
	s.keeper, s.catalog, s.limiter = h.keeper, h.catalog, h.limiter
	h.theater = s
}

// embeddedHouse has its records on SQLite, which change may do something to,
// and its buckets in memory.
func embeddedHouse(t *testing.T, change func(catalog.Store) catalog.Store) *house {
	path := filepath.Join(t.TempDir(), "sluice.db")
	db := must(sqlite.Open(t.Context(), path))(t)
	closes(t, db)
	buckets := must(memory.Open(memory.Config{}))(t)
	closes(t, buckets)
	var records catalog.Store = sqlitecatalog.New(db)
	if change != nil {
		records = change(records)
	}
	h := &house{theater: &theater{}}
	h.open(t, h.furnish(t, buckets, records, sqliteslots.New(db), sqlitereplays.New(db, nil)))
	h.find = func(t *testing.T, text string) (found []string) {
		raw := must(sql.Open("sqlite", path))(t)
		defer raw.Close()
		for _, table := range column(t, raw, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
			columns := column(t, raw, "SELECT name FROM pragma_table_info(?)", table)
			row := "coalesce(CAST(" + strings.Join(columns, " AS TEXT), '') || ' ' || coalesce(CAST(") + " AS TEXT), '')"
			for _, line := range column(t, raw, fmt.Sprintf("SELECT %s FROM %s", row, table)) {
				if strings.Contains(line, text) {
					found = append(found, table+": "+line)
				}
			}
		}
		for query := (sluice.Query{Namespace: text, Max: 1000}); ; {
			page := must(buckets.List(t.Context(), query))(t)
			for _, b := range page.Buckets {
				found = append(found, "bucket: "+b.Key.String())
			}
			if query.Cursor = page.Next; query.Cursor == "" {
				return found
			}
		}
	}
	return h
}

// column is the first column of what a query finds.
func column(t *testing.T, db *sql.DB, query string, args ...any) (all []string) {
	t.Helper()
	rows := must(db.QueryContext(t.Context(), query, args...))(t)
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// sharedHouse has its records on PostgreSQL, and its buckets and replays on
// Redis.
func sharedHouse(t *testing.T) *house {
	database := postgrestest.Start(t).Database(t)
	cache := redistest.Start(t)
	quiet := slog.New(slog.DiscardHandler)
	config := postgres.Config{Address: database, Log: quiet, Timeout: 20 * time.Second}
	records := must(pgcatalog.Open(t.Context(), config))(t)
	closes(t, records)
	slots := must(pgslots.Open(t.Context(), config))(t)
	closes(t, slots)
	buckets := must(limitstore.Open(t.Context(), redis.Config{Address: cache.URL(), Log: quiet, Timeout: 5 * time.Second}))(t)
	closes(t, buckets)
	replays := must(redisreplays.Open(t.Context(), redis.Config{Address: cache.URL(), Log: quiet, Timeout: 5 * time.Second}))(t)
	closes(t, replays)
	h := &house{theater: &theater{}}
	h.open(t, h.furnish(t, buckets, records, slots, replays))
	h.find = func(t *testing.T, text string) (found []string) {
		conn := must(pgx.Connect(t.Context(), database))(t)
		defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // it has done its work
		list := func(query string, args ...any) []string {
			rows := must(conn.Query(t.Context(), query, args...))(t)
			return must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
		}
		for _, table := range list("SELECT tablename::text FROM pg_tables WHERE schemaname = 'sluice' ORDER BY tablename") {
			// Bytes are shown in hexadecimal.
			for _, line := range list(fmt.Sprintf(`SELECT t::text FROM sluice.%s t
				WHERE t::text LIKE '%%' || $1 || '%%' OR t::text LIKE '%%' || encode($1::text::bytea, 'hex') || '%%'`, table), text) {
				found = append(found, table+": "+line)
			}
		}
		for _, key := range strings.Fields(cache.Must("KEYS", "*")) {
			if strings.Contains(key, text) || cache.Must("TYPE", key) == "hash" && strings.Contains(cache.Must("HGETALL", key), text) {
				found = append(found, "redis: "+key)
			}
		}
		return found
	}
	return h
}

// left is what is found of a namespace that should be gone. What may be there
// is who made and deleted it, its version, which never repeats, and its names
// among the latest changes, by which nodes hear of them.
func (h *house) left(t *testing.T, name string) []string {
	return slices.DeleteFunc(h.find(t, name), func(line string) bool {
		return strings.HasPrefix(line, "catalog_change: ") || strings.HasPrefix(line, "catalog_version: ") ||
			strings.HasPrefix(line, "catalog_event: ") && strings.Contains(line, "$NAMESPACE:"+name)
	})
}

func onEveryHouse(t *testing.T, run func(*testing.T, *house)) {
	t.Run("SQLite and memory", func(t *testing.T) { run(t, embeddedHouse(t, nil)) })
	t.Run("PostgreSQL and Redis", func(t *testing.T) { run(t, sharedHouse(t)) })
}
