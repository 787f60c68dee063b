package postgres

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/idempotency"
)

// Replays is an [idempotency.Store] on PostgreSQL. It is safe for concurrent
// use.
type Replays struct {
	config Config
	pool   *pgxpool.Pool
	sql    replayStatements
	closed atomic.Bool
}

var _ idempotency.Store = (*Replays)(nil)

// OpenReplays connects, and creates or migrates the schema where needed. Close
// ends it.
func OpenReplays(ctx context.Context, config Config) (*Replays, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Replays{config: config, sql: newReplayStatements(config.Schema)}
	if r.pool, _, err = connect(ctx, &config); err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends all connections.
func (r *Replays) Close() error {
	if !r.closed.Swap(true) {
		r.pool.Close()
	}
	return nil
}

// replayColumns are all but the result, in the order of scanReplay.
const replayColumns = `tenant, method, route, key, fingerprint, state, token, attempts, started, lease, lease_ends,
	finished, expires, replays, replayed, size`

type replayStatements struct {
	claim, extend, finish, release, lookup, forget, forgetAll, note, stats, recent, sweep string
}

func newReplayStatements(schema string) replayStatements {
	// As a subquery, the clock is read once and an index can be used.
	s := replayStatements{
		claim: `SELECT c.verdict, c.now, ` + replayQualified("(c.record).", replayColumns) + `, (c.record).result
			FROM sluice.claim_replay_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) c`,
		extend: `UPDATE sluice.replay SET lease = $4, lease_ends = (SELECT sluice.clock_v1($1)) + $4
			WHERE id = $2 AND token = $3 AND state = 0 AND expires > (SELECT sluice.clock_v1($1))`,
		finish: `SELECT sluice.finish_replay_v1($1, $2, $3, $4, $5, $6)`,
		release: `DELETE FROM sluice.replay
			WHERE id = $2 AND token = $3 AND state = 0 AND expires > (SELECT sluice.clock_v1($1))`,
		lookup:    `SELECT (SELECT sluice.clock_v1($1)), ` + replayColumns + `, result FROM sluice.replay WHERE id = $2`,
		forget:    `DELETE FROM sluice.replay WHERE id = $2 RETURNING expires > sluice.clock_v1($1)`,
		forgetAll: `SELECT sluice.forget_replays_v1($1, $2, $3, $4, $5, $6)`,
		note:      `SELECT sluice.note_replays_v1($1, $2, $3, $4, $5, $6, $7, $8)`,
		stats:     `SELECT name, value FROM sluice.replay_figure WHERE everyone = $1 AND tenant = $2`,
		recent: `SELECT (SELECT sluice.clock_v1($1)), ` + replayColumns + `, NULL::bytea FROM sluice.replay
			WHERE replays > 0 AND expires > (SELECT sluice.clock_v1($1)) AND ($2 OR tenant = $3)
			ORDER BY replayed DESC, key LIMIT $4`,
		sweep: `SELECT sluice.sweep_replays_v1($1, $2, $3)`,
	}
	for _, text := range []*string{&s.claim, &s.extend, &s.finish, &s.release, &s.lookup, &s.forget, &s.forgetAll, &s.note, &s.stats, &s.recent, &s.sweep} {
		*text = strings.ReplaceAll(*text, "sluice.", schema+".")
	}
	return s
}

func replayQualified(with, columns string) string {
	names := strings.Split(columns, ",")
	for i, name := range names {
		names[i] = with + strings.TrimSpace(name)
	}
	return strings.Join(names, ", ")
}

func (r *Replays) call(ctx context.Context, run func(context.Context, *pgx.Conn) error) error {
	return attempt(ctx, r.pool, r.config.Timeout, r.closed.Load, run)
}

func (r *Replays) given() *int64 {
	if r.config.Clock == nil {
		return nil
	}
	now := r.config.Clock().UnixMicro()
	return &now
}

// replayRow is a record as it is in the table.
type replayRow struct {
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
func (w *replayRow) fields() []any {
	return []any{
		&w.now, &w.tenant, &w.method, &w.route, &w.key, &w.fingerprint, &w.state, &w.token, &w.attempts, &w.started,
		&w.life, &w.claimEnds, &w.finished, &w.expires, &w.replays, &w.replayed, &w.size, &w.result,
	}
}

func (w *replayRow) expired() bool { return w.expires <= w.now }

func (w *replayRow) record() idempotency.Record {
	at := func(t *int64) time.Time {
		if t == nil {
			return time.Time{}
		}
		return time.UnixMicro(*t)
	}
	r := idempotency.Record{
		Scope: idempotency.Scope{Tenant: untext(w.tenant), Method: untext(w.method), Route: untext(w.route), Key: untext(w.key)},
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

// Claim asks for a key.
func (r *Replays) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	s, id := &c.Scope, c.Scope.ID()
	var (
		row     replayRow
		verdict int16
	)
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		row, verdict = replayRow{}, 0
		return conn.QueryRow(ctx, r.sql.claim, r.given(), id[:], text(s.Tenant), text(s.Method), text(s.Route), text(s.Key),
			c.Fingerprint[:], c.Token[:], c.Life.Microseconds(), c.TTL.Microseconds(), c.TakeOver).
			Scan(append([]any{&verdict}, row.fields()...)...)
	})
	if err != nil {
		return idempotency.Answer{}, err
	}
	return idempotency.Answer{Verdict: idempotency.Verdict(verdict), Record: row.record(), Now: time.UnixMicro(row.now)}, nil
}

// held runs a statement that changes a row only for the holder of its claim.
func (r *Replays) held(ctx context.Context, sql string, args ...any) error {
	changed := int64(0)
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		changed = tag.RowsAffected()
		return err
	})
	if err == nil && changed == 0 {
		return idempotency.ErrLost
	}
	return err
}

// Extend moves the end of a claim.
func (r *Replays) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, r.sql.extend, r.given(), id[:], token[:], life.Microseconds())
}

// Release ends a running claim.
func (r *Replays) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, r.sql.release, r.given(), id[:], token[:])
}

// Finish stores a result.
func (r *Replays) Finish(ctx context.Context, f *idempotency.Finish) error {
	var held bool
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.finish, r.given(), f.ID[:], f.Token[:], int16(f.State), f.TTL.Microseconds(), f.Result).Scan(&held)
	})
	if err == nil && !held {
		return idempotency.ErrLost
	}
	return err
}

// Lookup finds a record.
func (r *Replays) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	var row replayRow
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		row = replayRow{}
		return conn.QueryRow(ctx, r.sql.lookup, r.given(), id[:]).Scan(row.fields()...)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && row.expired():
		return idempotency.Record{}, idempotency.ErrNotFound
	case err != nil:
		return idempotency.Record{}, harmless(err)
	}
	return row.record(), nil
}

// Forget deletes a record.
func (r *Replays) Forget(ctx context.Context, id idempotency.ID) error {
	var alive bool
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.forget, r.given(), id[:]).Scan(&alive)
	})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !alive {
		return idempotency.ErrNotFound
	}
	return err
}

// Sweep deletes some of what has expired.
func (r *Replays) Sweep(ctx context.Context, most int) (n int, err error) {
	err = r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, r.sql.sweep, r.given(), most, idempotency.KeepStats.Microseconds()).Scan(&n)
	})
	return n, err
}
