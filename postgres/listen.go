package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/internal/backoff"
)

// reconnectEvery is how long to wait after a listening connection is lost.
const reconnectEvery = time.Second

// CanListen reports whether notifications can be heard: not through a pooler,
// unless Config.ListenAddress leads past it.
func (db *DB) CanListen() bool { return !db.pooled || db.Config.ListenAddress != "" }

// Listen returns a connection of its own on which the notifications of a
// channel arrive. The caller closes it.
func (db *DB) Listen(ctx context.Context, channel string) (*pgx.Conn, error) {
	config, err := db.Config.single(cmp.Or(db.Config.ListenAddress, db.Config.Address))
	if err != nil {
		return nil, db.Config.explain(err)
	}
	config.RuntimeParams["application_name"] = "sluice listening"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = db.Config.Timeout
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, db.Config.explain(err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// Follow listens to a channel until db is closed, and connects again whenever
// the connection is lost. It calls hearing when notifications begin to be heard
// and when they cease to be, and heard with each of them.
func (db *DB) Follow(channel string, hearing func(bool), heard func(payload string)) {
	db.Go(func() {
		for db.Life().Err() == nil {
			err := db.follow(channel, hearing, heard)
			hearing(false)
			if db.Life().Err() != nil {
				return
			}
			db.Config.Log.Warn("postgres: listening for notifications was interrupted", "channel", channel, "error", err)
			backoff.Sleep(db.Life(), reconnectEvery)
		}
	})
}

func (db *DB) follow(channel string, hearing func(bool), heard func(payload string)) error {
	conn, err := db.Listen(db.Life(), channel)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(db.Life())) //nolint:errcheck // it ends either way
	hearing(true)
	for {
		n, err := conn.WaitForNotification(db.Life())
		if err != nil {
			return err
		}
		heard(n.Payload)
	}
}
