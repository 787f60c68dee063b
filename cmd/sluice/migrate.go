package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/sqlite"
)

func migrateCommand() *cobra.Command {
	var p places
	var check bool
	cmd := offline(&cobra.Command{
		Use: "migrate", Short: "create or migrate the schemas that serve and gateway use",
		Long: `It needs the right to create tables, and a server with --migrate=off does not:
run it before the first start and before each upgrade. Nodes of the version
before go on working on a migrated schema. Redis and memory have no schema.`,
		Example: `sluice migrate --store postgres://owner@localhost/sluice --catalog postgres://owner@localhost/sluice
sluice migrate --check --catalog sluice.db`,
	}, func(f *pflag.FlagSet) {
		f.BoolVar(&check, "check", false, "change nothing, and exit with 1 if there is something to migrate")
	}, func(ctx context.Context, c *call) error { return p.migrateAll(ctx, c, check) })
	settings(cmd.Flags(), func(f *pflag.FlagSet) {
		p.store.define(f, "store", "memory", "`place` of the buckets, as for serve")
		p.catalog.define(f, "catalog", "sluice.db", "`place` of everything else, as for serve")
		p.replays.define(f, "replays", "", "`place` of the responses of idempotent writes, as for serve (default the catalog's)")
		p.store.connecting(f)
		p.catalog.connecting(f)
		p.replays.connecting(f)
	})
	return cmd
}

// migrated is a schema and its versions.
type migrated struct {
	Place  string `json:"place"`
	Before int    `json:"before"`
	Needed int    `json:"needed"`
}

func (p *places) migrateAll(ctx context.Context, c *call, check bool) error {
	all, todo := []migrated{}, false
	var text strings.Builder
	for _, d := range []*database{&p.store, &p.catalog, &p.replays} {
		if !d.isPostgres() && !d.isFile() {
			continue
		}
		v, err := d.migrateSchema(ctx, check)
		if err != nil {
			return err
		}
		m := migrated{redacted(d.address), v.Have, v.Newest}
		if slices.ContainsFunc(all, func(o migrated) bool { return o.Place == m.Place }) { // one schema serves several
			continue
		}
		all, todo = append(all, m), todo || v.Have < v.Newest
		switch {
		case v.Have >= v.Newest:
			fmt.Fprintf(&text, "%s: up to date, version %d\n", m.Place, v.Have)
		case check:
			fmt.Fprintf(&text, "%s: has version %d and needs %d\n", m.Place, v.Have, v.Newest)
		default:
			fmt.Fprintf(&text, "%s: migrated from version %d to %d\n", m.Place, v.Have, v.Newest)
		}
	}
	if err := c.print(map[string]any{"schemas": all}, text.String()); err != nil {
		return err
	}
	if check && todo {
		return errRefused
	}
	return nil
}

// migrateSchema brings one schema up to date, and returns the versions before.
func (d *database) migrateSchema(ctx context.Context, check bool) (v postgres.Version, err error) {
	if d.isPostgres() {
		config, err := d.postgres("on", slog.Default())
		if err != nil {
			return v, err
		}
		config.NoMigrate = check
		return postgres.Migrate(ctx, config)
	}
	v.Have, v.Newest, err = sqlite.Version(ctx, d.address)
	if err != nil || check || v.Have >= v.Newest {
		return v, err
	}
	db, err := d.sqlite(ctx, "on")
	if err != nil {
		return v, err
	}
	return v, db.Close()
}
