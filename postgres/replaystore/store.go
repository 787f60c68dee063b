// Package replaystore keeps the replays of idempotent writes in PostgreSQL.
package replaystore

import (
	"context"
	"strings"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/postgres"
)

// Store is an [idempotency.Store] on PostgreSQL. It is safe for concurrent
// use.
type Store struct{ db *postgres.DB }

var _ idempotency.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Pool returns the state of the connections.
func (r *Store) Pool() postgres.Pool { return r.db.Pool() }

// Close ends all connections.
func (r *Store) Close() error { return r.db.Close() }

// columns are all but the result, in the order of recordRow.fields.
const columns = `tenant, method, route, key, fingerprint, state, token, attempts, started, lease, lease_ends,
	finished, expires, replays, replayed, size`

// As a subquery, the clock is read once and an index can be used.
const clock = "(SELECT sluice.clock_v1($1))"

var claim = "SELECT c.verdict, c.now, " + qualified("(c.record).") + `, (c.record).result
	FROM sluice.claim_replay_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) c`

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

// one runs a statement, which is a transaction of its own, and reads its row. It
// reports whether there is one.
func (r *Store) one(ctx context.Context, to []any, sql string, args ...any) (found bool, err error) {
	err = r.db.Single(ctx, func(tx sqldb.Tx) error {
		found, err = sqldb.One(tx, to, sql, args...)
		return err
	})
	return found, err
}

// Claim claims a key.
func (r *Store) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	s, id := &c.Scope, c.Scope.ID()
	var (
		row     recordRow
		verdict int16
	)
	_, err := r.one(ctx, append([]any{&verdict}, row.fields()...), claim,
		r.db.Given(), id[:], postgres.Text(s.Tenant), postgres.Text(s.Method), postgres.Text(s.Route), postgres.Text(s.Key),
		c.Fingerprint[:], c.Token[:], c.Life.Microseconds(), c.TTL.Microseconds(), c.TakeOver)
	if err != nil {
		return idempotency.Answer{}, err
	}
	return idempotency.Answer{Verdict: idempotency.Verdict(verdict), Record: row.record(), Now: time.UnixMicro(row.now)}, nil
}

// held runs a statement that returns whether it did something, which it does
// only for the holder of a claim.
func (r *Store) held(ctx context.Context, sql string, args ...any) error {
	var held bool
	if _, err := r.one(ctx, []any{&held}, sql, args...); err != nil {
		return err
	}
	if !held {
		return idempotency.ErrLost
	}
	return nil
}

// Extend extends a running claim.
func (r *Store) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, "UPDATE sluice.replay SET lease = $4, lease_ends = "+clock+` + $4
		WHERE id = $2 AND token = $3 AND state = 0 AND expires > `+clock+" RETURNING true", r.db.Given(), id[:], token[:], life.Microseconds())
}

// Release ends a running claim.
func (r *Store) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, "DELETE FROM sluice.replay WHERE id = $2 AND token = $3 AND state = 0 AND expires > "+clock+" RETURNING true",
		r.db.Given(), id[:], token[:])
}

// Finish stores a result.
func (r *Store) Finish(ctx context.Context, f *idempotency.Finish) error {
	return r.held(ctx, "SELECT sluice.finish_replay_v1($1, $2, $3, $4, $5, $6)",
		r.db.Given(), f.ID[:], f.Token[:], int16(f.State), f.TTL.Microseconds(), f.Result)
}

// Lookup returns a record.
func (r *Store) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	var row recordRow
	found, err := r.one(ctx, row.fields(), "SELECT "+clock+", "+columns+", result FROM sluice.replay WHERE id = $2", r.db.Given(), id[:])
	switch {
	case err != nil:
		return idempotency.Record{}, postgres.ReadError(err)
	case !found || row.expired():
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return row.record(), nil
}

// Forget deletes a record.
func (r *Store) Forget(ctx context.Context, id idempotency.ID) error {
	var alive bool
	_, err := r.one(ctx, []any{&alive}, "DELETE FROM sluice.replay WHERE id = $2 RETURNING expires > sluice.clock_v1($1)", r.db.Given(), id[:])
	if err == nil && !alive {
		return idempotency.ErrNotFound
	}
	return err
}

// Sweep deletes some of what has expired.
func (r *Store) Sweep(ctx context.Context, most int) (n int, err error) {
	_, err = r.one(ctx, []any{&n}, "SELECT sluice.sweep_replays_v1($1, $2, $3)", r.db.Given(), most, idempotency.KeepStats.Microseconds())
	return n, err
}
