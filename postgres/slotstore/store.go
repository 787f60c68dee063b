// Package slotstore keeps slots in PostgreSQL.
package slotstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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
	db  *postgres.DB
	sql statements
}

var _ schedule.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{db, newStatements(db.In)}, nil
}

// Close ends all connections.
func (s *Store) Close() error { return s.db.Close() }

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock(), nil
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	})
	return now, err
}

// run runs f on a connection, as [postgres.DB.Call] does. Errors that the contract knows
// are answers; one whose outcome is unknown says so, and everything here may be
// asked again without harm.
func (s *Store) run(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	var answer error
	err := s.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := f(ctx, conn)
		if answer = nil; isAnswer(err) {
			answer, err = err, nil
		}
		return err
	})
	return cmp.Or(err, answer)
}

// change runs f in a transaction.
func (s *Store) change(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// isAnswer reports whether err is one that the contract knows.
func isAnswer(err error) bool {
	for _, known := range []error{schedule.ErrNotFound, schedule.ErrConflict, schedule.ErrStale, schedule.ErrClaimLost, errSeenBefore} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Flush tells everyone who watches to forget cached plans.
func (s *Store) Flush(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_notify($1, '')", s.channel())
		return err
	})
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

// statements are what is sent, with the schema's name filled in.
type statements struct {
	assign, assignFew              string
	grab, prepare, fill            string
	slot, plan, plans, versions    string
	claim, finish, renew, audit    string
	between, unstarted, windows    string
	insertAudit, giveBack, nextDue string
	cancel                         string
	sweep                          sweepStatements
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

func fromMicrosOrNull(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return fromMicros(*us)
}

func microsOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func noPlan(err error, name string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schedule.NoPlan(name)
	}
	return err
}

func noEvent(err error, event string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schedule.NoEvent(event)
	}
	return err
}

func errState(event string, state schedule.State, what string) error {
	return fmt.Errorf("event %q is %s, %s: %w", event, state, what, schedule.ErrConflict)
}
