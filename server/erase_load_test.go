package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/postgres"
	pgcatalog "github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/server"
)

// An entity is erased while three nodes, which hold tokens ahead and have counted
// what is not written yet, serve it. When they have written everything and
// ended, its name is nowhere but in leases and request ids that end within a
// minute.
func TestEraseUnderLoadLeavesNothing(t *testing.T) {
	database, cache := postgrestest.Start(t).Database(t), redistest.Start(t)
	quiet := slog.New(slog.DiscardHandler)
	ctx := t.Context()
	var nodes []*theater
	var ends []func() error
	for range 3 {
		records := must(pgcatalog.Open(ctx, postgres.Config{Address: database, Log: quiet, Timeout: 20 * time.Second}))(t)
		shared := must(limitstore.Open(ctx, redis.Config{Address: cache.URL(), Log: quiet, Timeout: 5 * time.Second}))(t)
		ahead := must(advance.New(shared, advance.Config{Log: quiet}))(t)
		known := must(catalog.Open(ctx, catalog.Config{Store: records, Log: quiet}))(t)
		recorder := must(catalog.NewRecorder(catalog.RecorderConfig{Store: records, Log: quiet, Every: 200 * time.Millisecond}))(t)
		nodes = append(nodes, stage(t, func(c *server.Config) {
			c.Limiter, c.Catalog = sluice.New(ahead, sluice.WithObserver(recorder)), known
		}))
		ends = append(ends, ahead.Close, recorder.Close, known.Close, shared.Close, records.Close)
	}
	admin := nodes[0].admin(t)
	must(admin.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100000/hour"), 0))(t)
	must(admin.PutEntity(ctx, catalog.Entity{ID: "team"}))(t)
	const victim = "zarathustra"
	must(admin.PutEntity(ctx, catalog.Entity{ID: victim, Parent: "team", Cascade: true, Name: "a person"}))(t)
	must(admin.PutEntity(ctx, catalog.Entity{ID: "bob", Parent: "team", Cascade: true}))(t)
	must(admin.SetLimits(ctx, catalog.Scope{Entity: victim, Resource: "chat"}, limits("rpm", "50000/hour", "slow", "10000/day"), 0))(t)
	secret := func(entity string) string {
		return must(admin.CreateKey(ctx, catalog.Key{Entity: entity, Scopes: []string{"sluice:take"}}, true))(t).Secret
	}

	var load sync.WaitGroup
	var served atomic.Int64
	keep, halt := context.WithCancel(ctx)
	for number, node := range nodes {
		for _, entity := range []string{victim, "bob"} {
			c := must(client.New(client.Config{URL: node.url, Token: secret(entity), HTTPClient: &http.Client{Transport: node.transport}}))(t)
			load.Go(func() {
				for i := 0; keep.Err() == nil; i++ {
					what := client.Take{Entity: entity, Resource: []string{"chat", "mail"}[i%2], ID: fmt.Sprint("request-", number, "-", i)}
					var err error
					switch i % 4 {
					case 0:
						what.ID = ""
						_, err = c.Take(keep, what)
					case 1:
						_, _, err = c.Acquire(keep, what) // nobody settles it
					default:
						_, err = c.Take(keep, what)
					}
					if err == nil && entity == victim {
						served.Add(1)
					}
					if err != nil && entity == victim && served.Load() > 0 {
						return // its key is gone
					}
				}
			})
		}
	}
	for served.Load() < 300 {
		time.Sleep(time.Millisecond)
	}
	erased := must(admin.EraseEntity(ctx, victim, catalog.RefuseChildren))(t)
	if erased.Buckets == 0 || erased.Usage == 0 || erased.Records < 3 {
		t.Errorf("%+v", erased)
	}
	halt()
	load.Wait()
	for _, end := range ends {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	for _, line := range leftOf(t, database, cache, victim) {
		t.Errorf("left: %s", line)
	}
	if len(leftOf(t, database, cache, "bob")) < 5 {
		t.Error("the search finds nothing of others either")
	}
}

// leftOf is everything in a database and a Redis that has a text in it.
func leftOf(t *testing.T, database string, cache *redistest.Server, text string) (found []string) {
	conn := must(pgx.Connect(t.Context(), database))(t)
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // it has done its work
	list := func(query string, args ...any) []string {
		return must(pgx.CollectRows(must(conn.Query(t.Context(), query, args...))(t), pgx.RowTo[string]))(t)
	}
	for _, table := range list("SELECT tablename::text FROM pg_tables WHERE schemaname = 'sluice' ORDER BY tablename") {
		// Bytes are shown in hexadecimal.
		for _, line := range list(fmt.Sprintf(`SELECT t::text FROM sluice.%s t
			WHERE t::text LIKE '%%' || $1 || '%%' OR t::text LIKE '%%' || encode($1::text::bytea, 'hex') || '%%'`, table), text) {
			found = append(found, table+": "+line)
		}
	}
	for _, key := range strings.Split(cache.Must("KEYS", "*"), "\n") {
		content := key
		switch cache.Must("TYPE", key) {
		case "hash":
			content += " " + cache.Must("HGETALL", key)
		case "string":
			content += " " + cache.Must("GET", key)
		case "zset":
			content += " " + cache.Must("ZRANGE", key, "0", "-1")
		case "set":
			content += " " + cache.Must("SMEMBERS", key)
		case "list":
			content += " " + cache.Must("LRANGE", key, "0", "-1")
		case "stream":
			content += " " + cache.Must("XRANGE", key, "-", "+")
		}
		left := must(strconv.Atoi(cache.Must("PTTL", key)))(t)
		if strings.Contains(content, text) && !(strings.HasPrefix(key, "sluice:1:id:") && left <= 60_000 && left != -1) {
			found = append(found, fmt.Sprintf("redis: %.120q", content))
		}
	}
	slices.Sort(found)
	return found[:min(len(found), 10)]
}
