package redis

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/background"
)

// DB holds the connections of one job to Redis, and what the job runs in the
// background. It is safe for concurrent use.
type DB struct {
	// Config is what the DB was opened with, defaults filled in. It must not be
	// changed.
	Config Config

	// Client sends commands. It does not repeat them.
	Client rueidis.Client

	// Cluster reports whether the address is that of a Cluster.
	Cluster bool

	// Calls counts the calls under way. While there are many, their commands
	// are gathered into fewer packets.
	Calls *atomic.Int32

	*background.Work

	open, opened atomic.Int64 // connections
}

// Open connects to Redis. It fails if the address is wrong or no server answers.
// Later the client reconnects by itself.
func Open(ctx context.Context, config Config) (*DB, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	options, cluster, err := parseAddress(config.Address, config.TLS)
	if err != nil {
		return nil, fmt.Errorf("redis: address: %w", err)
	}
	tune(&options, &config)
	db := &DB{Work: background.New(), Config: config, Cluster: cluster, Calls: &atomic.Int32{}}
	options.DialCtxFn = (&dialer{db.Calls, &db.open, &db.opened}).dial
	if db.Client, err = rueidis.NewClient(options); err != nil {
		return nil, fmt.Errorf("redis: %w: %w", sluice.ErrUnavailable, err)
	}
	for addr, node := range db.Client.Nodes() {
		db.warnOfEviction(ctx, addr, node)
	}
	return db, nil
}

// Close ends all connections. Calls under way may not get their answers.
func (db *DB) Close() error {
	defer db.Client.Close()
	return db.Work.Close()
}

// Connections returns how many connections are open, and how many were opened
// since the start.
func (db *DB) Connections() (open, opened int64) { return db.open.Load(), db.opened.Load() }

// Ready returns an error if db is closed or ctx has ended.
func (db *DB) Ready(ctx context.Context) error {
	if db.Life().Err() != nil {
		return fmt.Errorf("redis: %w", sluice.ErrClosed)
	}
	return ctx.Err()
}

// clusterRefresh is how often the layout of a cluster is looked at anyway.
const clusterRefresh = 5 * time.Second

// tune sets what does not depend on the address.
func tune(o *rueidis.ClientOption, c *Config) {
	// Whether a call may be repeated is for this package to know.
	o.DisableRetry = true
	o.DisableCache = true
	// One connection gathers more calls in each packet than several would,
	// which spares both sides system calls.
	o.PipelineMultiplex = bits.TrailingZeros(uint(c.Conns))
	if c.Conns == 1 {
		o.PipelineMultiplex = -1 // 0 means the client's own default
	}
	o.ClientName = "sluice"
	o.Dialer.Timeout = c.Timeout
	o.Sentinel.Dialer.Timeout = c.Timeout
	// A connection that is silent for so long is given up.
	o.ConnWriteTimeout = 2 * c.Timeout
	o.ClusterOption.MaxMovedRedirections = 8
	o.ClusterOption.ShardsRefreshInterval = clusterRefresh
}

// warnOfEviction warns if a server may throw keys away.
func (db *DB) warnOfEviction(ctx context.Context, addr string, node rueidis.Client) {
	ctx, cancel := context.WithTimeout(ctx, db.Config.Timeout)
	defer cancel()
	info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return // not permitted, perhaps; it is only a warning
	}
	_, rest, _ := strings.Cut(info, "maxmemory_policy:")
	if policy, _, ok := strings.Cut(rest, "\r\n"); ok && policy != "noeviction" {
		db.Config.Log.Warn("redis may evict buckets, which are then full again, and replays, whose writes then run again: set maxmemory-policy noeviction",
			"node", addr, "maxmemory-policy", policy)
	}
}
