package limitstore

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/redis"
)

// replica is a server from which lists are read while it is close behind the
// primary. How far it is behind follows from how much each of them has of the
// stream of writes: what the primary had some time ago, the replica has by now.
type replica struct {
	db       atomic.Pointer[redis.DB] // nil until it has been there
	measured atomic.Pointer[measuredLag]
	read     atomic.Int64
	skipped  atomic.Int64

	offsets []offset // of the primary, the oldest first
}

// measuredLag is that the replica had everything at some time here.
type measuredLag struct{ had time.Time }

type offset struct {
	at    time.Time
	bytes int64
}

const (
	// lagEvery is how often the lag is measured.
	lagEvery = 100 * time.Millisecond

	// lagKept is for how long a lag can be told; one that is longer is unknown.
	lagKept = 10 * time.Second
)

// lag returns how far the replica is behind at most, by now.
func (r *replica) lag() (time.Duration, bool) {
	m := r.measured.Load()
	if m == nil {
		return 0, false
	}
	d := time.Since(m.had)
	return d, d <= lagKept
}

// followReplica measures the lag until the store is closed.
func (s *Store) followReplica() {
	config := s.db.Config
	config.Address, config.Replica = config.Replica, ""
	said := false
	for r := &s.replica; backoff.Sleep(s.db.Life(), lagEvery); {
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
		r.measure(s.db)
	}
	if db := s.replica.db.Load(); db != nil {
		db.Close() //nolint:errcheck // nothing was written
	}
}

// measure asks both for how much they have.
func (r *replica) measure(primary *redis.DB) {
	at := time.Now()
	if bytes, ok := replicated(primary, "master_repl_offset"); ok {
		r.offsets = append(r.offsets, offset{at, bytes})
	}
	for len(r.offsets) > 0 && at.Sub(r.offsets[0].at) > lagKept {
		r.offsets = r.offsets[1:]
	}
	bytes, ok := replicated(r.db.Load(), "slave_repl_offset")
	if had, known := caughtUp(r.offsets, bytes); ok && known {
		r.measured.Store(&measuredLag{had})
	}
}

// caughtUp returns the last time at which the primary had no more than bytes.
func caughtUp(offsets []offset, bytes int64) (at time.Time, ok bool) {
	for _, o := range offsets {
		if o.bytes <= bytes {
			at, ok = o.at, true
		}
	}
	return at, ok
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
	if lag, ok := r.lag(); db == nil || !ok || lag > s.db.Config.MaxLag {
		r.skipped.Add(1)
		return s.db.Client
	}
	r.read.Add(1)
	return db.Client
}
