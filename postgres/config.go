package postgres

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config configures the connections of a job. Only Address is required.
type Config struct {
	// Address is the database, as a URL (postgres://user:password@host/name)
	// or as words (host=… dbname=…). What it leaves out comes from the usual
	// environment (PGHOST, PGUSER, …).
	Address string

	// ListenAddress is where to listen for notifications of room made by
	// other processes. It is only needed if Address leads to a pooler such as
	// PgBouncer, through which nothing can be listened to; without it waiting
	// callers there ask again every two seconds. Empty means Address.
	ListenAddress string

	// Replica is the address of a standby, from which buckets are listed while it is
	// at most MaxLag behind. Nothing that decides is read from it. "" lists
	// them from the primary.
	Replica string

	// MaxLag is how far the standby may be behind. 0 means 500 ms.
	MaxLag time.Duration

	// Schema is where the tables and functions are. Empty means sluice.
	Schema string

	// MaxConns bounds the connections to the database. 0 means what the
	// address says with pool_max_conns, or 10.
	MaxConns int

	// TLS, if not nil, encrypts every connection and verifies the server's
	// name and certificate, whatever sslmode the address asks for. It is for a
	// private authority or a client certificate.
	TLS *tls.Config

	// NoMigrate leaves the schema as it is. If it is older than this program
	// needs, opening fails: see [Migrate].
	NoMigrate bool

	// Timeout bounds one call to the database; after it the outcome is
	// unknown. The database gives up earlier, at three quarters of it, so
	// that usually it is known. 0 means 4 s.
	Timeout time.Duration

	// Log gets the few lines a store writes. Nil means slog.Default.
	Log *slog.Logger

	// Clock replaces the database's time, for tests.
	Clock func() time.Time
}

const (
	defaultSchema   = "sluice"
	defaultMaxConns = 10
	// DefaultTimeout is how long a call may take if [Config] does not say.
	DefaultTimeout = 4 * time.Second
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func (c Config) withDefaults() (Config, error) {
	if c.Schema == "" {
		c.Schema = defaultSchema
	}
	c.MaxConns = c.Conns(defaultMaxConns)
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxLag == 0 {
		c.MaxLag = 500 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.Address == "":
		return c, fmt.Errorf("postgres: Address: must be given, such as postgres://user:password@host/database")
	case !schemaName.MatchString(c.Schema):
		return c, fmt.Errorf("postgres: Schema: %q: must be a plain lower-case name", c.Schema)
	case c.MaxConns < 2 || c.MaxConns > 1000:
		return c, fmt.Errorf("postgres: MaxConns: %d: must be 2 to 1000", c.MaxConns)
	case c.Timeout < 100*time.Millisecond || c.Timeout > time.Minute:
		return c, fmt.Errorf("postgres: Timeout: %s: must be 100ms to 1m", c.Timeout)
	}
	return c, nil
}

// Conns returns how many connections there may be: MaxConns, or what the
// address says, or the default given.
func (c Config) Conns(otherwise int) int {
	if c.MaxConns != 0 {
		return c.MaxConns
	}
	// A pool takes its own settings out of what it parses, and does not tell
	// its defaults from what was asked for.
	if parsed, err := pgx.ParseConfig(c.Address); err == nil {
		if n, err := strconv.Atoi(parsed.RuntimeParams["pool_max_conns"]); err == nil {
			return n
		}
	}
	return otherwise
}

// patience is how long a call waits for a bucket that another is using.
func (c *Config) patience() time.Duration { return c.Timeout / 2 }

// serverTimeout is when the database itself gives a call up.
func (c *Config) serverTimeout() time.Duration { return c.Timeout * 3 / 4 }
