package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/schedule"
)

// Slots is a [schedule.Store] on PostgreSQL. It is safe for concurrent use.
//
// Whoever assigns an event locks the row of its window until the transaction
// ends, and everyone else passes that row over. Windows are created beforehand
// by [Slots.Prepare], in transactions of their own, so that nobody waits for
// somebody else who creates one.
type Slots struct {
	config   Config
	pool     *pgxpool.Pool
	pooled   bool
	patience *string // settings for functions to make if the session cannot
	sql      slotStatements

	stop    context.Context
	cancel  context.CancelFunc
	stopped sync.WaitGroup
}

var _ schedule.Store = (*Slots)(nil)

// OpenSlots connects, creates or migrates the schema where needed, and is
// ready to be used. Close ends it.
func OpenSlots(ctx context.Context, config Config) (*Slots, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Slots{config: config, sql: newSlotStatements(config.Schema)}
	if s.pool, s.pooled, err = connect(ctx, &config); err != nil {
		return nil, err
	}
	if s.pooled {
		patience := milliseconds(config.patience())
		s.patience = &patience
	}
	s.stop, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends all connections.
func (s *Slots) Close() error {
	s.cancel()
	s.stopped.Wait()
	s.pool.Close()
	return nil
}

// Now is the database's time.
func (s *Slots) Now(ctx context.Context) (now time.Time, err error) {
	if s.config.Clock != nil {
		return s.config.Clock(), nil
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	})
	return now, err
}

// run runs f on a connection, as [attempt] does. Errors that the contract knows
// are answers; one whose outcome is unknown says so, and everything here may be
// asked again without harm.
func (s *Slots) run(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	var answer error
	closed := func() bool { return s.stop.Err() != nil }
	err := attempt(ctx, s.pool, s.config.Timeout, closed, func(ctx context.Context, conn *pgx.Conn) error {
		err := f(ctx, conn)
		if answer = nil; isSlotAnswer(err) {
			answer, err = err, nil
		}
		return err
	})
	return cmp.Or(err, answer)
}

// change runs f in a transaction.
func (s *Slots) change(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// isSlotAnswer reports whether err is one that the contract knows.
func isSlotAnswer(err error) bool {
	for _, known := range []error{schedule.ErrNotFound, schedule.ErrConflict, schedule.ErrStale, schedule.ErrClaimLost, errSeenBefore} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Flush tells everyone who watches to forget cached plans.
func (s *Slots) Flush(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_notify($1, '')", s.channel())
		return err
	})
}

// channel is where flushes go: each schema has its own.
func (s *Slots) channel() string { return s.config.Schema + "_slots" }

// Watch calls forget when a notification of a flush or a change comes, and
// each time the listening connection is made, for those that were missed.
func (s *Slots) Watch(forget func()) {
	if s.pooled && s.config.ListenAddress == "" {
		s.config.Log.Warn("postgres slots: nothing can be listened to through a pooler: set ListenAddress, or plans are read again when they expire")
		return
	}
	s.stopped.Go(func() {
		for s.stop.Err() == nil {
			err := s.listen(s.stop, forget)
			if s.stop.Err() != nil {
				return
			}
			s.config.Log.Warn("postgres slots: listening for flushes was interrupted; plans are read again when they expire", "error", err)
			select {
			case <-time.After(reconnectEvery):
			case <-s.stop.Done():
			}
		}
	})
}

func (s *Slots) listen(ctx context.Context, forget func()) error {
	conn, err := s.config.listening(ctx, s.channel())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it ends either way
	for {
		forget()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// slotStatements are what is sent, with the schema's name filled in.
type slotStatements struct {
	assign, assignFew              string
	grab, prepare, fill            string
	slot, plan, plans, versions    string
	claim, finish, renew, audit    string
	between, unstarted, windows    string
	insertAudit, giveBack, nextDue string
	cancel                         string
	sweep                          sweepStatements
}

func (s *Slots) in(sql string) string { return inSchema(s.config.Schema, sql) }

func slotTime(us int64) time.Time { return time.UnixMicro(us).UTC() }

func slotTimeOrZero(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return slotTime(*us)
}

func slotMicros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func slotsNoPlan(err error, name string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schedule.NoPlan(name)
	}
	return err
}

func slotsNoEvent(err error, event string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schedule.NoEvent(event)
	}
	return err
}

func errSlotState(event string, state schedule.State, what string) error {
	return fmt.Errorf("event %q is %s, %s: %w", event, state, what, schedule.ErrConflict)
}
