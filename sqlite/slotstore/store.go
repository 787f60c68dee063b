// Package slotstore keeps slots in an SQLite file.
package slotstore

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/internal/sqlslots"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// Store is a [schedule.Store] in a database file. It is safe for concurrent use.
type Store struct {
	sqlslots.Store
	db       *sqlite.DB
	watching *background.Work
}

var _ schedule.Store = (*Store)(nil)

// flushEvery is how often a process looks whether another has flushed.
const flushEvery = 200 * time.Millisecond

// New returns the slots in db. Close it before db.
func New(db *sqlite.DB) *Store {
	return &Store{sqlslots.Store{DB: db, Notify: sqldb.Do("UPDATE slot_flush SET n = n + 1")}, db, background.New()}
}

// Close ends watching. The database file stays open.
func (s *Store) Close() error { return s.watching.Close() }

// Now returns this machine's time, which all who share the file have.
func (s *Store) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Watch calls forget when the count of flushes has risen.
func (s *Store) Watch(forget func()) {
	s.watching.Go(func() {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		last := int64(-1)
		for {
			var n int64
			if err := s.db.Reader().QueryRowContext(s.watching.Life(), "SELECT n FROM slot_flush").Scan(&n); err == nil && n != last {
				if last >= 0 {
					forget()
				}
				last = n
			}
			select {
			case <-s.watching.Life().Done():
				return
			case <-ticker.C:
			}
		}
	})
}
