package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connect opens a pool after a first connection has shown what the address
// leads to and has brought the schema up to date.
func connect(ctx context.Context, c *Config) (pool *pgxpool.Pool, pooled bool, err error) {
	config, err := parse(c)
	if err != nil {
		return nil, false, err
	}
	if pooled, err = prepareDatabase(ctx, c, config.ConnConfig); err != nil {
		return nil, false, fmt.Errorf("postgres: %w", c.explain(err))
	}
	pool, err = open(ctx, c, config, pooled)
	return pool, pooled, err
}

// parse reads the address.
func parse(c *Config) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(c.Address)
	if err != nil {
		return nil, fmt.Errorf("postgres: address: %w", c.explain(err))
	}
	config.MaxConns = int32(c.MaxConns)
	if c.TLS != nil {
		encrypt(&config.ConnConfig.Config, c.TLS)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "sluice"
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = c.Timeout
	}
	return config, nil
}

// open opens the pool, with connections set up for what the job does.
func open(ctx context.Context, c *Config, config *pgxpool.Config, pooled bool) (*pgxpool.Pool, error) {
	if pooled {
		// Statements cannot be prepared, nor settings made, on a connection
		// that is another one for the next transaction.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		params := config.ConnConfig.RuntimeParams
		params["statement_timeout"] = milliseconds(c.serverTimeout())
		params["idle_in_transaction_session_timeout"] = milliseconds(c.Timeout)
		params["default_transaction_isolation"] = "read committed"
		params["lock_timeout"] = milliseconds(c.patience()) // these as in ready_v1
		params["plan_cache_mode"] = "force_generic_plan"
		params["enable_seqscan"] = "off"
		params["jit"] = "off"
	}
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		return !hungUp(conn.PgConn().Conn()), nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", c.explain(err))
	}
	return pool, nil
}

// single parses an address for a connection outside a pool. The parameters of a
// pool, which the server would refuse as unknown, are left out.
func (c *Config) single(address string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.HasPrefix(name, "pool_") })
	if c.TLS != nil {
		encrypt(&config.Config, c.TLS)
	}
	return config, nil
}

// encrypt makes connections to each of the hosts use TLS, and never go without.
func encrypt(config *pgconn.Config, with *tls.Config) {
	named := func(host string) *tls.Config {
		own := with.Clone()
		if own.ServerName == "" {
			own.ServerName = host
		}
		return own
	}
	config.TLSConfig = named(config.Host)
	config.Fallbacks = slices.DeleteFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host == config.Host && f.Port == config.Port })
	for _, f := range config.Fallbacks {
		f.TLSConfig = named(f.Host)
	}
}

// prepareDatabase migrates, and reports whether a pooler is in between.
func prepareDatabase(ctx context.Context, c *Config, config *pgx.ConnConfig) (pooled bool, err error) {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only for a look
	var (
		pid      uint32
		encoding string
		version  int
		replica  bool
	)
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_encoding'),
		current_setting('server_version_num')::int, pg_is_in_recovery()`).Scan(&pid, &encoding, &version, &replica)
	if err != nil {
		return false, err
	}
	switch {
	case version < 130000:
		return false, fmt.Errorf("the server is PostgreSQL %d: at least 13 is needed", version/10000)
	case encoding != "UTF8":
		return false, fmt.Errorf("the database's encoding is %s: create one with ENCODING 'UTF8'", encoding)
	case replica:
		return false, errors.New("the server is a standby, which cannot be written to: name the primary, or all of them with target_session_attrs=read-write")
	}
	// A pooler tells its own process number, not that of the server.
	pooled = pid != conn.PgConn().PID()
	if c.NoMigrate {
		return pooled, current(ctx, conn, c.Schema)
	}
	return pooled, migrate(ctx, conn, c.Schema)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// explain adds what to do to the errors that people meet when they set up.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if strings.Contains(err.Error(), "cannot parse") {
			return fmt.Errorf("%w; write it as postgres://user:password@host:5432/database", err)
		}
		return err
	}
	hint := map[string]string{
		"28P01": "check the password",
		"28000": "check the user, and that pg_hba.conf lets it in",
		"3D000": "create the database first: createdb NAME",
		"42501": "let the user create its own schema (GRANT CREATE ON DATABASE … TO …), or create the schema for it: CREATE SCHEMA … AUTHORIZATION …",
		"53300": "the server has too many connections: lower MaxConns, or raise max_connections",
		"25006": "the server is read-only: name the primary",
	}[pg.Code]
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}

// explain is for a schema that others change, too: then it has to be granted.
func (c *Config) explain(err error) error {
	var pg *pgconn.PgError
	if !c.NoMigrate || !errors.As(err, &pg) || pg.Code != "42501" {
		return explain(err)
	}
	return fmt.Errorf("%[1]w; let the user use the schema: GRANT USAGE ON SCHEMA %[2]s TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[2]s TO …; "+
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA %[2]s TO …", err, c.Schema)
}
