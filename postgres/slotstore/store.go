// Package slotstore keeps slots in PostgreSQL.
package slotstore

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/internal/sqlslots"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/schedule"
)

// Store is a [schedule.Store] on PostgreSQL. It is safe for concurrent use.
//
// Whoever assigns an event locks the row of its window until the transaction
// ends, and everyone else passes that row over. Windows are created beforehand
// by [Store.Prepare], in transactions of their own, so that nobody waits for
// somebody else who creates one.
type Store struct {
	sqlslots.Store
	db *postgres.DB
}

var _ schedule.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	s.Store = sqlslots.Store{
		DB: db, Notify: sqldb.Do("SELECT pg_notify($1, '')", s.channel()),
		// Whatever the statistics say: rows in the order of an index, and no more
		// of them than are asked for.
		Steady: sqldb.Do(`SELECT sluice.ready_v1($1), set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
			set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`, db.Patience()),
	}
	return s, nil
}

// Pool returns the state of the connections.
func (s *Store) Pool() postgres.Pool { return s.db.Pool() }

// Close ends all connections.
func (s *Store) Close() error { return s.db.Close() }

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock(), nil
	}
	err = s.db.View(ctx, func(tx sqldb.Tx) error {
		_, err := sqldb.One(tx, []any{&now}, "SELECT clock_timestamp()")
		return err
	})
	return now, err
}

// Claim takes slots that are due, in one statement.
func (s *Store) Claim(ctx context.Context, c schedule.Claiming) (slots []schedule.Slot, err error) {
	err = s.db.Single(ctx, func(tx sqldb.Tx) error {
		slots, err = sqldb.All(tx, sqlslots.Scan, claimSQL, c.Namespace, c.Plan, c.Now.UnixMicro(), c.Max, c.Worker, c.Until.UnixMicro())
		return err
	})
	return slots, err
}

// channel is where flushes go: each schema has its own.
func (s *Store) channel() string { return s.db.Config.Schema + "_slots" }

// Watch calls forget when a notification of a flush or a change comes, and
// each time the listening connection is made, for those that were missed.
func (s *Store) Watch(forget func()) {
	if !s.db.CanListen() {
		s.db.Config.Log.Warn("postgres slots: nothing can be listened to through a pooler: set ListenAddress, or plans are read again when they expire")
		return
	}
	s.db.Follow(s.channel(), func(hearing bool) {
		if hearing {
			forget()
		}
	}, func(string) { forget() })
}
