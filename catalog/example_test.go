package catalog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "catalog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	db, err := sqlite.Open(ctx, filepath.Join(dir, "sluice.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	c, err := catalog.Open(ctx, catalog.Config{Store: catalogstore.New(db)})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// A team with a quota, and somebody in it.
	edit := c.Edit("default", catalog.By{Actor: "anna"})
	for _, e := range []catalog.Entity{{ID: "team"}, {ID: "alice", Parent: "team", Cascade: true}} {
		if _, err := edit.CreateEntity(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	perMinute := func(n int64) catalog.Limits {
		return catalog.Limits{"rpm": {Limit: sluice.MustParse(fmt.Sprintf("%d/minute", n))}}
	}
	for scope, n := range map[catalog.Scope]int64{{}: 60, {Entity: "team"}: 2} {
		if _, err := edit.SetLimits(ctx, scope, perMinute(n), 0); err != nil {
			log.Fatal(err)
		}
	}

	// What applies to alice, and a take of all of it or nothing.
	r, err := c.Resolve(ctx, catalog.Subject{Namespace: "default", Entity: "alice", Resource: "chat"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r.Explain("alice"))
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)
	for range 3 {
		d, err := limiter.Take(ctx, r.Demands(nil, "alice")...)
		if err != nil {
			log.Fatal(err)
		}
		demand, _ := d.Deciding()
		fmt.Println(d.Allowed, demand.Key.Entity, demand.Level)
	}
	// Output:
	// alice on chat:
	//   rpm 60/minute: level system, stored
	//   rpm 2/minute: level entity, stored, of team
	// true team entity
	// true team entity
	// false team entity
}
