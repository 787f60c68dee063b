// Package replaystore keeps the replays of idempotent writes in PostgreSQL.
package replaystore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres"
)

// Store is an [idempotency.Store] on PostgreSQL. It is safe for concurrent
// use.
type Store struct {
	db  *postgres.DB
	sql statements
}

var _ idempotency.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{db, newStatements(db.In)}, nil
}

// Close ends all connections.
func (r *Store) Close() error { return r.db.Close() }

// columns are all but the result, in the order of recordRow.fields.
const columns = `tenant, method, route, key, fingerprint, state, token, attempts, started, lease, lease_ends,
	finished, expires, replays, replayed, size`

type statements struct {
	claim, extend, finish, release, lookup, forget, forgetAll, note, stats, recent, sweep string
}

func newStatements(in func(string) string) statements {
	// As a subquery, the clock is read once and an index can be used.
	s := statements{
		claim: `SELECT c.verdict, c.now, ` + qualified("(c.record).") + `, (c.record).result
			FROM sluice.claim_replay_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) c`,
		extend: `UPDATE sluice.replay SET lease = $4, lease_ends = (SELECT sluice.clock_v1($1)) + $4
			WHERE id = $2 AND token = $3 AND state = 0 AND expires > (SELECT sluice.clock_v1($1))`,
		finish: `SELECT sluice.finish_replay_v1($1, $2, $3, $4, $5, $6)`,
		release: `DELETE FROM sluice.replay
			WHERE id = $2 AND token = $3 AND state = 0 AND expires > (SELECT sluice.clock_v1($1))`,
		lookup:    `SELECT (SELECT sluice.clock_v1($1)), ` + columns + `, result FROM sluice.replay WHERE id = $2`,
		forget:    `DELETE FROM sluice.replay WHERE id = $2 RETURNING expires > sluice.clock_v1($1)`,
		forgetAll: `SELECT sluice.forget_replays_v1($1, $2, $3, $4, $5, $6)`,
		note:      `SELECT sluice.note_replays_v1($1, $2, $3, $4, $5, $6, $7, $8)`,
		stats:     `SELECT name, value FROM sluice.replay_figure WHERE everyone = $1 AND tenant = $2`,
		recent: `SELECT (SELECT sluice.clock_v1($1)), ` + columns + `, NULL::bytea FROM sluice.replay
			WHERE replays > 0 AND expires > (SELECT sluice.clock_v1($1)) AND ($2 OR tenant = $3)
			ORDER BY replayed DESC, key LIMIT $4`,
		sweep: `SELECT sluice.sweep_replays_v1($1, $2, $3)`,
	}
	for _, text := range []*string{&s.claim, &s.extend, &s.finish, &s.release, &s.lookup, &s.forget, &s.forgetAll, &s.note, &s.stats, &s.recent, &s.sweep} {
		*text = in(*text)
	}
	return s
}

func qualified(with string) string {
	names := strings.Split(columns, ",")
	for i, name := range names {
		names[i] = with + strings.TrimSpace(name)
	}
	return strings.Join(names, ", ")
}

// recordRow is a record as it is in the table.
type recordRow struct {
	now                         int64
	tenant, method, route, key  string
	fingerprint, token, result  []byte
	state                       int16
	attempts, started, life     int64
	claimEnds, expires, replays int64
	size                        int64
	finished, replayed          *int64
}

// fields are where to scan the row to.
func (w *recordRow) fields() []any {
	return []any{
		&w.now, &w.tenant, &w.method, &w.route, &w.key, &w.fingerprint, &w.state, &w.token, &w.attempts, &w.started,
		&w.life, &w.claimEnds, &w.finished, &w.expires, &w.replays, &w.replayed, &w.size, &w.result,
	}
}

func (w *recordRow) expired() bool { return w.expires <= w.now }

func (w *recordRow) record() idempotency.Record {
	at := func(t *int64) time.Time {
		if t == nil {
			return time.Time{}
		}
		return time.UnixMicro(*t)
	}
	r := idempotency.Record{
		Scope: idempotency.Scope{Tenant: postgres.Untext(w.tenant), Method: postgres.Untext(w.method), Route: postgres.Untext(w.route), Key: postgres.Untext(w.key)},
		State: idempotency.State(w.state), Attempts: w.attempts, Started: time.UnixMicro(w.started),
		Life: time.Duration(w.life) * time.Microsecond, ClaimEnds: time.UnixMicro(w.claimEnds),
		Finished: at(w.finished), Expires: time.UnixMicro(w.expires),
		Replays: w.replays, Replayed: at(w.replayed), Size: w.size, Result: w.result,
	}
	copy(r.Fingerprint[:], w.fingerprint)
	copy(r.Token[:], w.token)
	r.Crashed = r.State == idempotency.Running && w.claimEnds <= w.now
	return r
}

// Claim claims a key.
func (r *Store) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	s, id := &c.Scope, c.Scope.ID()
	var (
		row     recordRow
		verdict int16
	)
	err := r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		row, verdict = recordRow{}, 0
		return conn.QueryRow(ctx, r.sql.claim, r.db.Given(), id[:], postgres.Text(s.Tenant), postgres.Text(s.Method), postgres.Text(s.Route), postgres.Text(s.Key),
			c.Fingerprint[:], c.Token[:], c.Life.Microseconds(), c.TTL.Microseconds(), c.TakeOver).
			Scan(append([]any{&verdict}, row.fields()...)...)
	})
	if err != nil {
		return idempotency.Answer{}, err
	}
	return idempotency.Answer{Verdict: idempotency.Verdict(verdict), Record: row.record(), Now: time.UnixMicro(row.now)}, nil
}

// held runs a statement that changes a row only for the holder of its claim.
func (r *Store) held(ctx context.Context, sql string, args ...any) error {
	changed := int64(0)
	err := r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		changed = tag.RowsAffected()
		return err
	})
	if err == nil && changed == 0 {
		return idempotency.ErrLost
	}
	return err
}

// Extend extends a running claim.
func (r *Store) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, r.sql.extend, r.db.Given(), id[:], token[:], life.Microseconds())
}

// Release ends a running claim.
func (r *Store) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, r.sql.release, r.db.Given(), id[:], token[:])
}

// Finish stores a result.
func (r *Store) Finish(ctx context.Context, f *idempotency.Finish) error {
	var held bool
	err := r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.finish, r.db.Given(), f.ID[:], f.Token[:], int16(f.State), f.TTL.Microseconds(), f.Result).Scan(&held)
	})
	if err == nil && !held {
		return idempotency.ErrLost
	}
	return err
}

// Lookup returns a record.
func (r *Store) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	var row recordRow
	err := r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		row = recordRow{}
		return conn.QueryRow(ctx, r.sql.lookup, r.db.Given(), id[:]).Scan(row.fields()...)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && row.expired():
		return idempotency.Record{}, idempotency.ErrNotFound
	case err != nil:
		return idempotency.Record{}, postgres.ReadError(err)
	}
	return row.record(), nil
}

// Forget deletes a record.
func (r *Store) Forget(ctx context.Context, id idempotency.ID) error {
	var alive bool
	err := r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.forget, r.db.Given(), id[:]).Scan(&alive)
	})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !alive {
		return idempotency.ErrNotFound
	}
	return err
}

// Sweep deletes some of what has expired.
func (r *Store) Sweep(ctx context.Context, most int) (n int, err error) {
	err = r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.sweep, r.db.Given(), most, idempotency.KeepStats.Microseconds()).Scan(&n)
	})
	return n, err
}
