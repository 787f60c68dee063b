package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The migrations are the SQL files of all jobs and those that they share, each
// once, in order of their numbers. A schema remembers them as sql/ and the name
// of the file, wherever that is.
//
// They say "sluice." before every name; another schema replaces that.
// Functions carry a version in their names, so that a later file can add the
// next version beside the one that older nodes still call. A file whose
// functions have a successor is then removed, which leaves a gap in the
// numbers: a schema that has the functions keeps them, and a new one does not
// get them. Number 2 is what is still called of the files that were removed: a
// schema that has those has it already, because it is past number 2.
//
//go:embed sql/*.sql */sql/*.sql
var migrations embed.FS

type migration struct {
	version int
	name    string
	sql     string
}

func loadMigrations(schema string) ([]migration, error) {
	shared, err := fs.Glob(migrations, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(migrations, "*/sql/*.sql")
	if err != nil {
		return nil, err
	}
	files = append(files, shared...)
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
	all := make([]migration, len(files))
	for i, file := range files {
		b, err := migrations.ReadFile(file)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(path.Base(file), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version < 1 || i > 0 && version <= all[i-1].version {
			return nil, fmt.Errorf("migration %s: must begin with a number of its own", file)
		}
		all[i] = migration{version: version, name: "sql/" + path.Base(file), sql: strings.ReplaceAll(string(b), "sluice.", schema+".")}
	}
	return all, nil
}

// Version is how far a schema is, and how far this program would take it.
type Version struct{ Have, Newest int }

// Migrate creates the schema of config, or brings it to this program's version.
// With [Config.NoMigrate] it only looks. It returns the versions before.
func Migrate(ctx context.Context, config Config) (v Version, err error) {
	if config, err = config.withDefaults(); err != nil {
		return v, err
	}
	parsed, err := config.single(config.Address)
	if err != nil {
		return v, fmt.Errorf("postgres: address: %w", config.explain(err))
	}
	parsed.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, parsed)
	if err != nil {
		return v, fmt.Errorf("postgres: %w", config.explain(err))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it has done its work
	all, err := loadMigrations(config.Schema)
	if err != nil {
		return v, err
	}
	v.Newest = all[len(all)-1].version
	if v.Have, _, err = schemaVersion(ctx, conn, config.Schema); err != nil {
		return v, fmt.Errorf("postgres: %w", config.explain(err))
	}
	if !config.NoMigrate {
		if err := migrate(ctx, conn, config.Schema); err != nil {
			return v, fmt.Errorf("postgres: %w", config.explain(err))
		}
	}
	return v, nil
}

// current refuses a schema that this program would have to migrate.
func current(ctx context.Context, conn *pgx.Conn, schema string) error {
	all, err := loadMigrations(schema)
	if err != nil {
		return err
	}
	newest := all[len(all)-1].version
	have, least, err := schemaVersion(ctx, conn, schema)
	if err == nil && have < newest {
		err = fmt.Errorf("schema %s has version %d and this Sluice needs %d: migrate it with sluice migrate, or let the server do it", schema, have, newest)
	}
	return errors.Join(err, checkVersion(schema, newest, have, least))
}

// migrate brings the schema to this program's version, if it is older.
func migrate(ctx context.Context, conn *pgx.Conn, schema string) error {
	all, err := loadMigrations(schema)
	if err != nil {
		return err
	}
	newest := all[len(all)-1].version
	if have, least, err := schemaVersion(ctx, conn, schema); err != nil || have >= newest {
		return errors.Join(err, checkVersion(schema, newest, have, least))
	}
	// One transaction: either all is done or nothing is, and the lock ends
	// with it, also through a pooler.
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after Commit it does nothing
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('sluice migrates ' || $1, 0))", schema); err != nil {
		return err
	}
	have, least, err := schemaVersion(ctx, tx.Conn(), schema)
	if err != nil {
		return err
	}
	if have >= newest { // somebody else was faster
		return checkVersion(schema, newest, have, least)
	}
	if have == 0 {
		if err := createSchema(ctx, tx, schema); err != nil {
			return err
		}
	}
	// Nodes of any version since the schema was made find there what they call.
	// A new schema has only what this version calls.
	if have == 0 {
		least = newest
	}
	for _, m := range all {
		if m.version <= have {
			continue
		}
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, located(err, m.sql))
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s.migration (version, name, oldest) VALUES ($1, $2, $3)", schema),
			m.version, m.name, least); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func createSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s.migration (
		version int PRIMARY KEY,
		name    text NOT NULL,
		oldest  int NOT NULL, -- what a node has to know at least
		applied timestamptz NOT NULL DEFAULT now()
	)`, schema))
	return err
}

// schemaVersion is the version of the schema, 0 for none, and the least that a
// node has to know.
func schemaVersion(ctx context.Context, conn *pgx.Conn, schema string) (version, least int, err error) {
	// Not to_regclass, which may remember that there was none a moment ago.
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'migration')", schema).
		Scan(&exists); err != nil || !exists {
		return 0, 0, err
	}
	err = conn.QueryRow(ctx, fmt.Sprintf("SELECT version, oldest FROM %s.migration ORDER BY version DESC LIMIT 1", schema)).Scan(&version, &least)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, fmt.Errorf("table %s.migration is empty: a migration was undone by hand; drop the schema to start again", schema)
	}
	return version, least, err
}

// checkVersion refuses a schema that is too new for this program.
func checkVersion(schema string, newest, have, least int) error {
	if newest < least {
		return fmt.Errorf("schema %s has version %d, which needs a Sluice that knows version %d at least; this one knows %d: use a newer Sluice, or another schema",
			schema, have, least, newest)
	}
	return nil
}

// located adds the line that an error in a migration points at.
func located(err error, sql string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Position <= 0 || int(pg.Position) > len(sql) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(sql[:pg.Position], "\n"), err)
}
