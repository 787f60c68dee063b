package onpostgres

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/bench/contest"
)

// document is the sequence that Sluice's PostgreSQL store was asked to
// replace, as its source describes it: take an advisory lock, read the row for
// update, refill and decide in the caller, update, commit, unlock. There are
// as many connections as callers. With several buckets each has its own lock,
// which the source leaves for later.
type document struct {
	pool  *pgxpool.Pool
	burst float64
	rate  float64 // tokens a second
}

const documentTable = `CREATE TABLE rate_limit_state (
	name text PRIMARY KEY,
	tokens double precision NOT NULL,
	last_refill timestamptz NOT NULL,
	total_requests bigint NOT NULL
)`

func openDocument(ctx context.Context, address string, callers int) (*document, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(callers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, documentTable); err != nil {
		pool.Close()
		return nil, err
	}
	return &document{pool: pool, burst: burst, rate: 1 / every.Seconds()}, nil
}

func (d *document) caller() contest.Take {
	ctx := context.Background()
	return func(key string) (allowed bool, err error) {
		err = d.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			allowed, err = d.take(ctx, conn.Conn(), key)
			return err
		})
		return allowed, err
	}
}

func (d *document) take(ctx context.Context, conn *pgx.Conn, key string) (allowed bool, err error) {
	h := fnv.New64a()
	h.Write([]byte(key)) //nolint:errcheck // it never fails
	lock := int64(h.Sum64())
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lock); err != nil {
		return false, err
	}
	defer func() {
		_, unlockErr := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", lock)
		err = errors.Join(err, unlockErr)
	}()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		allowed, err = d.decide(ctx, tx, key)
		return err
	})
	return allowed, err
}

func (d *document) decide(ctx context.Context, tx pgx.Tx, key string) (bool, error) {
	var (
		tokens float64
		last   time.Time
		total  int64
	)
	now := time.Now()
	err := tx.QueryRow(ctx, "SELECT tokens, last_refill, total_requests FROM rate_limit_state WHERE name = $1 FOR UPDATE", key).
		Scan(&tokens, &last, &total)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, "INSERT INTO rate_limit_state VALUES ($1, $2, $3, 1)", key, d.burst-1, now)
		return true, err
	}
	if err != nil {
		return false, err
	}
	tokens = min(d.burst, tokens+max(0, now.Sub(last).Seconds())*d.rate)
	if tokens < 1 {
		return false, nil
	}
	_, err = tx.Exec(ctx, "UPDATE rate_limit_state SET tokens = $2, last_refill = $3, total_requests = $4 WHERE name = $1",
		key, tokens-1, now, total+1)
	return true, err
}
