// Package replaystore keeps the replays of idempotent writes in an SQLite file.
package replaystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/sqlite"
)

// Store is an [idempotency.Store] in a database file. It is safe for concurrent
// use, also by several processes on one machine.
type Store struct {
	db  *sqlite.DB
	now func() time.Time

	// turns let one claim of a key at a time ask for the database's lock, which
	// processes wait for by polling. When many come at once, the first one
	// writes, and the others then see that with a read.
	turns [64]chan struct{}
}

var _ idempotency.Store = (*Store)(nil)

// New returns the replays in db. now replaces the machine's time in tests; nil
// means time.Now.
func New(db *sqlite.DB, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	r := &Store{db: db, now: now}
	for i := range r.turns {
		r.turns[i] = make(chan struct{}, 1)
	}
	return r
}

// Close does nothing. The caller closes the database file.
func (r *Store) Close() error { return nil }

// clock is the time in microseconds, as it is stored.
func (r *Store) clock() time.Time { return r.now().Truncate(time.Microsecond) }

// fault is the error of a transaction. One that was not committed has not
// happened, and the commit itself fails as a whole.
func fault(err error) error {
	if err == nil || errors.Is(err, idempotency.ErrLost) || errors.Is(err, idempotency.ErrNotFound) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("sqlite replays: %w: %w", sluice.ErrUnknown, err)
	}
	return fmt.Errorf("sqlite replays: %w: %w", sluice.ErrUnavailable, err)
}

const columns = `tenant, method, route, key, fingerprint, state, token, attempts, started, lease, lease_ends,
	finished, expires, replays, replayed, size`

// scanRecord reads a row of columns and the result.
func scanRecord(scan func(...any) error, now time.Time) (*idempotency.Record, error) {
	var (
		r                                                    idempotency.Record
		tenant, method, route, key, fingerprint, token       []byte
		started, life, ends, finished, expires, replayed, st int64
	)
	err := scan(&tenant, &method, &route, &key, &fingerprint, &st, &token, &r.Attempts, &started, &life, &ends,
		&finished, &expires, &r.Replays, &replayed, &r.Size, &r.Result)
	if err != nil {
		return nil, err
	}
	at := func(t int64) time.Time {
		if t == 0 {
			return time.Time{}
		}
		return time.UnixMicro(t)
	}
	r.Scope = idempotency.Scope{Tenant: string(tenant), Method: string(method), Route: string(route), Key: string(key)}
	r.State = idempotency.State(st)
	copy(r.Fingerprint[:], fingerprint)
	copy(r.Token[:], token)
	r.Started, r.Life, r.ClaimEnds = at(started), time.Duration(life)*time.Microsecond, at(ends)
	r.Finished, r.Expires, r.Replayed = at(finished), at(expires), at(replayed)
	r.Crashed = r.State == idempotency.Running && !now.Before(r.ClaimEnds)
	return &r, nil
}

// queryer is the database, or a transaction in it.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// find reads a record, nil if there is none.
func find(ctx context.Context, in queryer, id idempotency.ID, now time.Time) (*idempotency.Record, error) {
	row := in.QueryRowContext(ctx, "SELECT "+columns+", result FROM replay WHERE id = ?", id[:])
	r, err := scanRecord(row.Scan, now)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// put writes a record that begins, or begins anew.
func put(ctx context.Context, tx *sql.Tx, id idempotency.ID, r *idempotency.Record) error {
	s := &r.Scope
	_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO replay
		(id, tenant, method, route, key, fingerprint, state, token, attempts, started, lease, lease_ends, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id[:], []byte(s.Tenant), []byte(s.Method), []byte(s.Route), []byte(s.Key), r.Fingerprint[:], int64(r.State), r.Token[:],
		r.Attempts, r.Started.UnixMicro(), r.Life.Microseconds(), r.ClaimEnds.UnixMicro(), r.Expires.UnixMicro())
	return err
}

// Claim claims a key. Most repeats only read, and wait for nobody.
func (r *Store) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	id := c.Scope.ID()
	var (
		a    idempotency.Answer
		next *idempotency.Record // what is to be written
	)
	decide := func(in queryer) error {
		now := r.clock()
		found, err := find(ctx, in, id, now)
		if err != nil {
			return err
		}
		a = idempotency.Answer{Now: now}
		a.Verdict, next = idempotency.Decide(found, c, now)
		if next == found {
			next = nil
		}
		if next != nil {
			a.Record = *next
		} else {
			a.Record = *found
		}
		if a.Verdict != idempotency.Finished {
			a.Record.Result = nil
		}
		return nil
	}
	err := decide(r.db.Reader())
	if err == nil && next != nil {
		turn := r.turns[int(id[0])%len(r.turns)]
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return idempotency.Answer{}, fmt.Errorf("sqlite replays: %w: %w", sluice.ErrUnavailable, context.Cause(ctx))
		}
		err = decide(r.db.Reader())
	}
	if err == nil && next != nil {
		err = r.db.Write(ctx, func(tx *sql.Tx) error {
			if err := decide(tx); err != nil || next == nil {
				return err
			}
			if a.Verdict == idempotency.Busy {
				_, err := tx.ExecContext(ctx, "UPDATE replay SET lease_ends = ? WHERE id = ?", next.ClaimEnds.UnixMicro(), id[:])
				return err
			}
			return put(ctx, tx, id, next)
		})
	}
	if err != nil {
		return idempotency.Answer{}, fault(err)
	}
	return a, nil
}

// held runs change on the record of a claim that token holds.
func (r *Store) held(ctx context.Context, id idempotency.ID, token idempotency.Token,
	change func(*sql.Tx, *idempotency.Record, time.Time) error) error {
	return fault(r.db.Write(ctx, func(tx *sql.Tx) error {
		now := r.clock()
		found, err := find(ctx, tx, id, now)
		if err != nil {
			return err
		}
		if found == nil || found.Token != token || !now.Before(found.Expires) {
			return idempotency.ErrLost
		}
		return change(tx, found, now)
	}))
}

// Extend extends a running claim.
func (r *Store) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, id, token, func(tx *sql.Tx, found *idempotency.Record, now time.Time) error {
		if found.State != idempotency.Running {
			return idempotency.ErrLost
		}
		_, err := tx.ExecContext(ctx, "UPDATE replay SET lease = ?, lease_ends = ? WHERE id = ?",
			life.Microseconds(), now.Add(life).UnixMicro(), id[:])
		return err
	})
}

// Finish stores a result.
func (r *Store) Finish(ctx context.Context, f *idempotency.Finish) error {
	return r.held(ctx, f.ID, f.Token, func(tx *sql.Tx, found *idempotency.Record, now time.Time) error {
		if found.State != idempotency.Running {
			if found.State != f.State {
				return idempotency.ErrLost
			}
			return nil // sent again
		}
		_, err := tx.ExecContext(ctx, "UPDATE replay SET state = ?, finished = ?, expires = ?, size = ?, result = ? WHERE id = ?",
			int64(f.State), now.UnixMicro(), now.Add(f.TTL).UnixMicro(), len(f.Result), f.Result, f.ID[:])
		return err
	})
}

// Release ends a running claim.
func (r *Store) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, id, token, func(tx *sql.Tx, found *idempotency.Record, _ time.Time) error {
		if found.State != idempotency.Running {
			return idempotency.ErrLost
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM replay WHERE id = ?", id[:])
		return err
	})
}

// Lookup returns a record.
func (r *Store) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	now := r.clock()
	found, err := find(ctx, r.db.Reader(), id, now)
	if err != nil {
		return idempotency.Record{}, fault(err)
	}
	if found == nil || !now.Before(found.Expires) {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return *found, nil
}

// Forget deletes a record.
func (r *Store) Forget(ctx context.Context, id idempotency.ID) error {
	return fault(r.db.Write(ctx, func(tx *sql.Tx) error {
		n, err := sqlite.Exec(ctx, tx, "DELETE FROM replay WHERE id = ? AND expires > ?", id[:], r.clock().UnixMicro())
		if err == nil && n == 0 {
			return idempotency.ErrNotFound
		}
		return err
	}))
}

// Sweep deletes some of what has expired.
func (r *Store) Sweep(ctx context.Context, most int) (n int, err error) {
	now := r.clock()
	err = r.db.Write(ctx, func(tx *sql.Tx) error {
		n, err = sqlite.Exec(ctx, tx, "DELETE FROM replay WHERE id IN (SELECT id FROM replay WHERE expires <= ? ORDER BY expires LIMIT ?)",
			now.UnixMicro(), most)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM replay_figure WHERE at < ? AND NOT everyone", now.Add(-idempotency.KeepStats).UnixMicro())
		return err
	})
	return n, fault(err)
}
