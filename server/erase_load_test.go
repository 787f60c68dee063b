package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/postgres"
	pgcatalog "github.com/sluice-go/sluice/postgres/catalogstore"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/server"
)

// An entity is erased while three nodes, which hold tokens ahead and have counted
// what is not written yet, serve it. When they have written everything and
// ended, its name is nowhere: not in leases and request ids that would be kept
// for a day, nor in a ban of an hour that the nodes share.
func TestEraseUnderLoadLeavesNothing(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	t.Run("redis", func(t *testing.T) {
		cache := redistest.Start(t)
		eraseUnderLoad(t, cache, func(t *testing.T, _ string) sluice.Store {
			return must(limitstore.Open(t.Context(), redis.Config{Address: cache.URL(), Log: quiet, Timeout: 5 * time.Second}))(t)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		eraseUnderLoad(t, nil, func(t *testing.T, database string) sluice.Store {
			return must(pglimits.Open(t.Context(), postgres.Config{Address: database, Log: quiet, Timeout: 20 * time.Second}))(t)
		})
	})
}

func eraseUnderLoad(t *testing.T, cache *redistest.Server, open func(t *testing.T, database string) sluice.Store) {
	database := postgrestest.Start(t).Database(t)
	quiet := slog.New(slog.DiscardHandler)
	ctx := t.Context()
	const victim = "zarathustra"
	var nodes []*theater
	var guards []*abuse.Guard
	var ends []func() error
	for range 3 {
		records := must(pgcatalog.Open(ctx, postgres.Config{Address: database, Log: quiet, Timeout: 20 * time.Second}))(t)
		shared := open(t, database)
		guard := must(abuse.New(abuse.Config{Namespace: "default", Store: shared, Log: quiet}))(t)
		guards = append(guards, guard)
		ahead := must(advance.New(shared, advance.Config{Log: quiet}))(t)
		known := must(catalog.Open(ctx, catalog.Config{Store: records, Log: quiet}))(t)
		recorder := must(catalog.NewRecorder(catalog.RecorderConfig{Store: records, Log: quiet, Every: 200 * time.Millisecond}))(t)
		nodes = append(nodes, stage(t, func(c *server.Config) {
			c.Limiter, c.Catalog = sluice.New(ahead, sluice.WithObserver(recorder)), known
		}))
		ends = append(ends, guard.Close, ahead.Close, recorder.Close, known.Close, shared.Close, records.Close)
	}
	admin := nodes[0].admin(t)
	must(admin.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100000/hour"), 0))(t)
	must(admin.PutEntity(ctx, catalog.Entity{ID: "team"}))(t)
	must(admin.PutEntity(ctx, catalog.Entity{ID: victim, Parent: "team", Cascade: true, Name: "a person"}))(t)
	must(admin.PutEntity(ctx, catalog.Entity{ID: "bob", Parent: "team", Cascade: true}))(t)
	must(admin.SetLimits(ctx, catalog.Scope{Entity: victim, Resource: "chat"}, limits("rpm", "50000/hour", "slow", "10000/day"), 0))(t)
	secret := func(entity string) string {
		return must(admin.CreateKey(ctx, catalog.Key{Entity: entity, Scopes: []string{"sluice:take"}}, true))(t).Secret
	}

	var load sync.WaitGroup
	var served atomic.Int64
	var erasing atomic.Bool
	keep, halt := context.WithCancel(ctx)
	for number, node := range nodes {
		for _, entity := range []string{victim, "bob"} {
			c := must(client.New(client.Config{URL: node.url, Token: secret(entity), HTTPClient: &http.Client{Transport: node.transport}}))(t)
			load.Go(func() {
				for i := 0; keep.Err() == nil; i++ {
					what := client.Take{Entity: entity, Resource: []string{"chat", "mail"}[i%2]}
					var err error
					switch i % 4 {
					case 0:
						_, err = c.Take(keep, what)
					case 1:
						what.ID, what.Keep = fmt.Sprint("lease-", number, "-", i), 24*time.Hour
						_, _, err = c.Acquire(keep, what) // nobody settles it
					default:
						what.ID = fmt.Sprint("request-", number, "-", i)
						_, err = c.Take(keep, what)
					}
					if err == nil && entity == victim {
						served.Add(1)
					}
					if err != nil && !erasing.Load() {
						t.Errorf("%s, request %d: %v", entity, i, err)
						served.Add(300)
						return
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
	banned := &policy.Abuse{Ban: &policy.Ban{Refusals: 1, Within: time.Minute, For: time.Hour}}
	for i, entity := range []string{victim, "bob"} {
		guards[i].Seen(banned, entity, true)
		for guards[2].Banned(entity) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	erasing.Store(true)
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
	if guards[0].Banned("bob") == 0 {
		t.Error("the ban of somebody else is gone")
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
	if cache == nil {
		return found[:min(len(found), 10)]
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
		if strings.Contains(content, text) {
			found = append(found, fmt.Sprintf("redis: %.120q", content))
		}
	}
	slices.Sort(found)
	return found[:min(len(found), 10)]
}
