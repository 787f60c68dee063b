package limitstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// Store is a [sluice.Store] on Redis. It is safe for concurrent use.
type Store struct {
	db       *redis.DB
	limits   limits
	combiner combiner
	deadline deadline
	skew     atomic.Int64 // of the server's clock to ours, in microseconds
	clocks   clocks
	replica  replica
	shards   atomic.Pointer[shardOf]

	clock sync.Mutex // of tests
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// Open connects to Redis. It fails if the address is wrong or no server answers.
// Later the store reconnects by itself.
func Open(ctx context.Context, config redis.Config) (*Store, error) {
	db, err := redis.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	if db.Cluster && config.Replica != "" {
		return nil, errors.Join(errors.New("redis: Replica: a Cluster has no replica of everything"), db.Close())
	}
	s := &Store{db: db}
	s.combine()
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if config.Clock == nil {
		s.db.Go(s.watchClocks)
	}
	if config.Replica != "" {
		s.db.Go(s.followReplica)
	}
	if db.Cluster {
		if err := s.findShards(ctx); err != nil {
			db.Config.Log.Warn("which shards the cluster has is not known yet", "error", err)
		}
		s.db.Go(s.watchShards)
	}
	return s, nil
}

// Connections returns how many connections are open, and how many were opened
// since the start.
func (s *Store) Connections() (open, opened int64) { return s.db.Connections() }

// Close ends all connections. Calls under way may not get their answers.
func (s *Store) Close() error { return s.db.Close() }

// prepare loads the script. That it can be done proves that the store works.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*s.db.Config.Timeout)
	defer cancel()
	for addr, node := range s.db.Client.Nodes() {
		err := node.Do(ctx, node.B().ScriptLoad().Script(script).Build()).Error()
		if err != nil && !s.db.Cluster { // in a cluster some node may be away; it gets the script later
			return fmt.Errorf("redis: %s: %w: %w", addr, sluice.ErrUnavailable, err)
		}
	}
	return ctx.Err()
}

// Capabilities reports what the store supports: everything.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}
