package limitstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
)

// Store is a [sluice.Store] on PostgreSQL. It is safe for concurrent use.
type Store struct {
	db    *postgres.DB
	sql   statements
	specs specs
	marks marks
	clock clock

	takes       *queue
	settlements *queue
	watch       watch
	replica     replica
	decided     atomic.Int64
	batches     atomic.Int64
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, sql: newStatements(db.Config.Schema)}
	s.marks.seed = maphash.MakeSeed()
	s.takes, s.settlements = newQueue(s.sendTakes), newQueue(s.sendSettlements)
	s.watch.init()
	if config.Replica != "" {
		if s.replica.db, err = postgres.OpenReplica(ctx, config); err != nil {
			return nil, errors.Join(fmt.Errorf("replica: %w", err), db.Close())
		}
		db.Go(s.followReplica)
	}
	if config.Clock == nil { // stores with different clocks must not sweep each other's buckets
		db.Go(s.sweepRegularly)
	}
	db.Go(s.notifyOthers)
	return s, nil
}

// sendTakes has a batch of takes decided.
func (s *Store) sendTakes(b *batch) {
	s.decided.Add(int64(len(b.requests)))
	s.batches.Add(1)
	if b.requests[0].kind == plainTake {
		s.sendPlain(b)
	} else {
		s.sendGeneral(b)
	}
}

// Pool returns the state of the connections.
func (s *Store) Pool() postgres.Pool { return s.db.Pool() }

// Close waits for calls that are under way, and ends all connections.
func (s *Store) Close() error {
	s.takes.close()
	s.settlements.close()
	err := s.db.Close()
	if s.replica.db != nil {
		err = errors.Join(err, s.replica.db.Close())
	}
	return err
}

// Capabilities reports what the store supports: everything.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// statements are what the store sends, with the schema's name filled in.
type statements struct {
	takePlain, take, adjust, forget, grant, giveBack, settle, sweep string
}

func newStatements(schema string) statements {
	call := func(function string, args int) string {
		holders := make([]string, args)
		for i := range holders {
			holders[i] = fmt.Sprintf("$%d", i+1)
		}
		return fmt.Sprintf("SELECT * FROM %s.%s(%s)", schema, function, strings.Join(holders, ", "))
	}
	return statements{
		takePlain: call("take_plain_v2", 18),
		take:      call("take_v2", 26),
		adjust:    call("adjust_v2", 15),
		forget:    call("forget_v2", 6),
		grant:     call("grant_v2", 23),
		giveBack:  call("give_back_v2", 10),
		settle:    call("settle_v3", 9),
		sweep:     call("sweep_v2", 3),
	}
}

// call runs one function of the database, as [postgres.DB.Call] does. now is
// where the function leaves the time that it was there, if it does.
func (s *Store) call(ctx context.Context, now *int64, run func(context.Context, *pgx.Conn) error) error {
	var asked time.Time
	err := s.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		asked = time.Now()
		return run(ctx, conn)
	})
	if err == nil && now != nil && s.db.Config.Clock == nil {
		s.clock.saw(*now, asked, s.db.Config.Log)
	}
	return err
}

// ready returns an error if the store is closed or ctx has ended.
func (s *Store) ready(ctx context.Context) error {
	if s.db.Life().Err() != nil {
		return postgres.ErrClosed
	}
	return ctx.Err()
}

// reckon is the database's time as far as this process can tell.
func (s *Store) reckon() int64 {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock().UnixMicro()
	}
	return s.clock.now()
}

// Stats are counts since the store was opened.
type Stats struct {
	Takes        int64 // that were decided
	Batches      int64 // in which they went to the database
	ClockBack    int64 // times the database's clock was set back
	ClockForward int64 // times it was set forward
	ClockGaps    int64 // times it was not heard of for over 15 s

	// Lists read from the replica, and those that were not because it was too far
	// behind or not there; and how far it is behind at most, if that is known.
	ReplicaReads, ReplicaSkips int64
	ReplicaLag                 time.Duration
	ReplicaLagKnown            bool
}

// Stats returns the counts of the store.
func (s *Store) Stats() Stats {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	st := Stats{
		Takes: s.decided.Load(), Batches: s.batches.Load(),
		ClockBack: s.clock.back, ClockForward: s.clock.forward, ClockGaps: s.clock.gaps,
	}
	st.ReplicaReads, st.ReplicaSkips = s.replica.Counts()
	st.ReplicaLag, st.ReplicaLagKnown = s.replica.Lag()
	return st
}
