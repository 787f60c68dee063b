// Package slotstore keeps slots in an SQLite file.
package slotstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// Store is a [schedule.Store] in a database file. It is safe for concurrent use.
type Store struct {
	db      *sqlite.DB
	stop    context.Context
	cancel  context.CancelFunc
	stopped sync.WaitGroup
}

var _ schedule.Store = (*Store)(nil)

// flushEvery is how often a process looks whether another has flushed.
const flushEvery = 200 * time.Millisecond

// New returns the slots in db. Close it before db.
func New(db *sqlite.DB) *Store {
	s := &Store{db: db}
	s.stop, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends watching. The database file stays open.
func (s *Store) Close() error {
	s.cancel()
	s.stopped.Wait()
	return nil
}

// Now returns this machine's time, which all who share the file have.
func (s *Store) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Flush tells everyone who watches to forget cached plans.
func (s *Store) Flush(ctx context.Context) error {
	return wrapped(s.db.Write(ctx, func(tx *sql.Tx) error { return flush(ctx, tx) }))
}

func flush(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE slot_flush SET n = n + 1")
	return err
}

// Watch calls forget when the count of flushes has risen.
func (s *Store) Watch(forget func()) {
	s.stopped.Go(func() {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		last := int64(-1)
		for {
			var n int64
			if err := s.db.Reader().QueryRowContext(s.stop, "SELECT n FROM slot_flush").Scan(&n); err == nil && n != last {
				if last >= 0 {
					forget()
				}
				last = n
			}
			select {
			case <-s.stop.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

// wrapped says where an error that is not the caller's comes from.
func wrapped(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return fmt.Errorf("sqlite slots: %w", err)
}

// audit adds an entry to the audit log.
func audit(ctx context.Context, tx *sql.Tx, namespace string, plan int64, e *schedule.Entry) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO slot_audit
		(time, namespace, plan, event, action, attempt, fence, worker, scheduled, granted, started, finished, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Time.UnixMicro(), namespace, plan, e.Event, string(e.Action), e.Attempt, e.Fence, e.Worker,
		microsOrNull(e.Scheduled), microsOrNull(e.Granted), microsOrNull(e.Started), microsOrNull(e.Finished), e.Detail)
	return err
}

func microsOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return time.UnixMicro(us.Int64).UTC()
}
