package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// attempt runs one statement within a time. It runs it again only as long as
// it is certain that it has not happened. That no row was found is an answer.
func attempt(ctx context.Context, pool *pgxpool.Pool, within time.Duration, closed func() bool, run func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var err error
	for n := range attempts {
		if n > 0 && !pause(ctx, n) {
			break
		}
		if closed() {
			return errClosed
		}
		var conn *pgxpool.Conn
		if conn, err = pool.Acquire(ctx); err != nil {
			continue // nothing was sent
		}
		err = run(ctx, conn.Conn())
		verdict := judge(err)
		if errors.Is(err, pgx.ErrNoRows) {
			verdict = done
		}
		if verdict == elsewhere {
			conn.Conn().Close(ctx) //nolint:errcheck // it is of no use
		}
		conn.Release()
		switch verdict {
		case done:
			return err
		case undone:
			return errUnavailable(err)
		case unknown:
			return errUnknown(err)
		}
	}
	return errUnavailable(err)
}

// listening is a connection of its own on which notifications of a channel
// arrive. The caller closes it.
func (c *Config) listening(ctx context.Context, channel string) (*pgx.Conn, error) {
	address := c.ListenAddress
	if address == "" {
		address = c.Address
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, explain(err)
	}
	config.RuntimeParams["application_name"] = "sluice listening"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = c.Timeout
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, explain(err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}
