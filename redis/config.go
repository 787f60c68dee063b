package redis

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/bits"
	"time"
)

// Config configures the connections of a job. Only Address is required.
type Config struct {
	// Address says which Redis, and how to get in:
	//
	//	redis://[user:password@]host[:6379][/db]
	//	redis+sentinel://[user:password@]host[:26379],host,.../master[?db=1]
	//	redis+cluster://[user:password@]host[:6379],host,...
	//
	// rediss instead of redis is the same over TLS. Sentinels that want a
	// password of their own get it by ?sentinel_username and
	// ?sentinel_password.
	Address string

	// TLS is used with rediss, for instance for a private authority. Nil
	// trusts what the system trusts.
	TLS *tls.Config

	// Conns is how many connections to each server carry commands: 1, 2, 4 and
	// so on up to 64. 0 means 1, which gathers more commands in each packet
	// than several do. More help where the server runs several threads for
	// its connections, or where TLS is what takes the time.
	Conns int

	// Timeout is how long one operation may take. After that it may or may
	// not have happened. 0 means 500 ms.
	Timeout time.Duration

	// Replicas is how many replicas must have acknowledged a take with a critical
	// demand before it is answered: see [sluice.Demand.Critical]. Such a take has
	// a connection to itself meanwhile. 0 waits for none. It is certain only if
	// every replica that may be promoted is among them.
	Replicas int

	// Replica is the address of a replica of the server, from which lists are read
	// while it is at most MaxLag behind. Takes, and looking at a bucket with a
	// peek, never are. "" reads lists from the primary. It is not for a Cluster.
	Replica string

	// MaxLag is how far the replica may be behind. 0 means 500 ms.
	MaxLag time.Duration

	// Separate has a limit store send each take in its own call. Otherwise takes that
	// come while a call on the same key is under way are sent in one call
	// after it, which is a lot cheaper under load, and each is still decided
	// for itself, in order.
	Separate bool

	// Log gets the few lines a store writes. Nil means slog.Default.
	Log *slog.Logger

	// Clock replaces the server's time, for tests. Buckets then do not expire
	// by it.
	Clock func() time.Time
}

// DefaultTimeout is how long an operation may take if [Config] does not say.
const DefaultTimeout = 500 * time.Millisecond

func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.MaxLag == 0 {
		c.MaxLag = 500 * time.Millisecond
	}
	if c.Conns == 0 {
		c.Conns = 1
	}
	if c.Conns < 1 || c.Conns > 64 || bits.OnesCount(uint(c.Conns)) != 1 {
		return c, fmt.Errorf("redis: Conns: %d: must be 1, 2, 4, 8, 16, 32 or 64", c.Conns)
	}
	if c.Replicas < 0 {
		return c, fmt.Errorf("redis: Replicas: %d: must not be negative", c.Replicas)
	}
	if c.Timeout < time.Millisecond || c.Timeout > time.Minute {
		return c, fmt.Errorf("redis: Timeout: %s: must be between 1ms and 1m", c.Timeout)
	}
	return c, nil
}
