package limitstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/internal/combine"
)

// Store is a [sluice.Store] in a table of DynamoDB. It is safe for concurrent use.
type Store struct {
	db    *dynamodb.DB
	locks locks
	lanes combine.Lanes[*request]
	hints hints
	rooms rooms

	speculated, missed, conflicts atomic.Int64
	ahead                         atomic.Int64 // the most that a bucket's time was, of this node's
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// Open connects to a table that [dynamodb.Setup] has made.
func Open(ctx context.Context, config dynamodb.Config) (*Store, error) {
	db, err := dynamodb.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	s.locks.start()
	s.combine()
	s.rooms.start()
	s.db.Go(s.tell)
	return s, nil
}

// Close ends what runs in the background. Calls under way may fail.
func (s *Store) Close() error { return s.db.Close() }

// Capabilities reports what the store supports: everything.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// begin returns a context for one call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := s.db.Ready(ctx); err != nil {
		return ctx, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.db.Config.Timeout)
	return ctx, cancel, nil
}

// compile prepares the limits of demands.
func compile(demands []sluice.Demand) ([]*bucket.Spec, error) {
	specs := make([]*bucket.Spec, len(demands))
	for i := range demands {
		spec, err := bucket.Compile(demands[i].Limit)
		if err != nil {
			return nil, err
		}
		specs[i] = spec
	}
	return specs, nil
}

// now returns this node's time in microseconds. [dynamodb.DB.Skew] is how far
// it is off.
func (s *Store) now() int64 {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock().UnixMicro()
	}
	return time.Now().UnixMicro()
}

// Stats are counts since the store was opened.
type Stats struct {
	Requests   int64 // sent to DynamoDB
	Speculated int64 // takes, or several together, by one write without a read
	Missed     int64 // such writes whose condition failed: the take needed another look
	Conflicts  int64 // writes that others have come before

	// Skew is how far this machine's clock is ahead of the service's, at least, if that
	// is known. Ahead is how far the time of a bucket was ahead of this machine's clock,
	// at most, because another node's is.
	Skew      time.Duration
	SkewKnown bool
	Ahead     time.Duration
}

// Stats returns the counts of the store.
func (s *Store) Stats() Stats {
	st := Stats{
		Requests: s.db.Requests(), Speculated: s.speculated.Load(), Missed: s.missed.Load(), Conflicts: s.conflicts.Load(),
		Ahead: time.Duration(s.ahead.Load()) * time.Microsecond,
	}
	st.Skew, st.SkewKnown = s.db.Skew()
	return st
}

// saw looks at the time of the buckets that were read.
func (s *Store) saw(c *change) {
	for _, it := range c.items {
		for _, r := range it.records {
			if r.spec == nil || r.spec.Limit.Algorithm != sluice.TokenBucket {
				continue
			}
			for ahead := r.state.Time - c.now; ; {
				before := s.ahead.Load()
				if ahead <= before || s.ahead.CompareAndSwap(before, ahead) {
					break
				}
			}
		}
	}
}
