package limitstore

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/lag"
	"github.com/sluice-go/sluice/redis"
)

// replica is a server from which lists are read while it is close behind the
// primary.
type replica struct {
	lag.Meter
	db atomic.Pointer[redis.DB] // nil until it has been there
}

// followReplica measures the lag until the store is closed.
func (s *Store) followReplica() {
	config := s.db.Config
	config.Address, config.Replica = config.Replica, ""
	said := false
	for r := &s.replica; backoff.Sleep(s.db.Life(), lag.Every); {
		if r.db.Load() == nil {
			db, err := redis.Open(s.db.Life(), config)
			if err != nil {
				if !said && s.db.Life().Err() == nil {
					s.db.Config.Log.Warn("redis: the replica is not there: lists are read from the primary", "error", err)
				}
				said = true
				continue
			}
			r.db.Store(db)
		}
		r.Measure(func() (int64, bool) { return replicated(s.db, "master_repl_offset") },
			func() (int64, bool) { return replicated(r.db.Load(), "slave_repl_offset") })
	}
	if db := s.replica.db.Load(); db != nil {
		db.Close() //nolint:errcheck // nothing was written
	}
}

// replicated returns a number that INFO has of replication. One of a replica that
// has lost its primary is none.
func replicated(db *redis.DB, name string) (int64, bool) {
	ctx, cancel := context.WithTimeout(db.Life(), db.Config.Timeout)
	defer cancel()
	info, err := db.Client.Do(ctx, db.Client.B().Info().Section("replication").Build()).ToString()
	if err != nil || strings.Contains(info, "master_link_status:down") {
		return 0, false
	}
	_, rest, _ := strings.Cut(info, "\r\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// lists returns the client that a list is read from. A list that was begun on one
// server is finished there.
func (s *Store) lists(at spot) rueidis.Client {
	r := &s.replica
	if s.db.Config.Replica == "" {
		return s.db.Client
	}
	db := r.db.Load()
	if at.Node != "" {
		if db != nil && db.Client.Nodes()[at.Node] != nil {
			return db.Client
		}
		return s.db.Client
	}
	if !r.Near(s.db.Config.MaxLag) {
		return s.db.Client
	}
	return db.Client
}
