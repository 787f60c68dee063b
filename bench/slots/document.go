package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// document is the sequence that Sluice's slots were asked to replace, as its
// source describes it, one event at a time: look for the event; then, window
// by window, begin, insert the window's counter, lock it without waiting, and
// either go on to the next or count, insert the event and commit. Its
// configuration is in memory. Oracle's errors for rows that exist would end a
// PostgreSQL transaction, so it says ON CONFLICT DO NOTHING instead.
type document struct {
	pool     *pgxpool.Pool
	max      int
	size     time.Duration
	headroom int
}

const documentTables = `
CREATE TABLE rate_limit_window_counter (
	window_start timestamptz PRIMARY KEY,
	slot_count   int NOT NULL
);
CREATE TABLE rate_limit_event_slot (
	id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event_id       text NOT NULL UNIQUE,
	config_name    text NOT NULL,
	window_start   timestamptz NOT NULL,
	scheduled_time timestamptz NOT NULL,
	requested_time timestamptz NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON rate_limit_event_slot (window_start);`

func openDocument(ctx context.Context, address string, callers, perWindow int) (*document, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(callers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, documentTables); err != nil {
		pool.Close()
		return nil, err
	}
	return &document{pool: pool, max: perWindow, size: 4 * time.Second, headroom: 100_000}, nil
}

var errExhausted = errors.New("no window has room")

func (d *document) assign(ctx context.Context, event string, at time.Time) error {
	return d.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var scheduled time.Time
		err := conn.QueryRow(ctx, "SELECT scheduled_time FROM rate_limit_event_slot WHERE event_id = $1", event).Scan(&scheduled)
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		window := at.Truncate(d.size)
		for range d.headroom {
			done, err := d.try(ctx, conn, event, at, window)
			if err != nil || done {
				return err
			}
			window = window.Add(d.size)
		}
		return errExhausted
	})
}

// try tries one window.
func (d *document) try(ctx context.Context, conn *pgxpool.Conn, event string, at, window time.Time) (done bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO rate_limit_window_counter VALUES ($1, 0) ON CONFLICT DO NOTHING", window); err != nil {
			return err
		}
		var count int
		if err := tx.QueryRow(ctx, "SELECT slot_count FROM rate_limit_window_counter WHERE window_start = $1 FOR UPDATE NOWAIT", window).Scan(&count); err != nil {
			return err
		}
		if count >= d.max {
			return nil
		}
		if _, err := tx.Exec(ctx, "UPDATE rate_limit_window_counter SET slot_count = slot_count + 1 WHERE window_start = $1", window); err != nil {
			return err
		}
		scheduled := window.Add(rand.N(d.size))
		tag, err := tx.Exec(ctx, `INSERT INTO rate_limit_event_slot (event_id, config_name, window_start, scheduled_time, requested_time)
			VALUES ($1, 'default', $2, $3, $4) ON CONFLICT DO NOTHING`, event, window, scheduled, at)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = tx.Exec(ctx, "UPDATE rate_limit_window_counter SET slot_count = slot_count - 1 WHERE window_start = $1", window)
		}
		done = err == nil
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // somebody else has it locked
		return false, nil
	}
	return done && err == nil, err
}

// fill puts events into the first windows from a time on, as the sequence
// would have, but all at once.
func (d *document) fill(at time.Time, n int) error {
	ctx := context.Background()
	windows := n / d.max
	if _, err := d.pool.Exec(ctx, `INSERT INTO rate_limit_window_counter
		SELECT $1::timestamptz + i * $2::interval, $3 FROM generate_series(0, $4 - 1) i`, at, d.size, d.max, windows); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, `INSERT INTO rate_limit_event_slot (event_id, config_name, window_start, scheduled_time, requested_time)
		SELECT e, 'default', w, w + random() * $2::interval, $1
		FROM (SELECT e, $1::timestamptz + ((i - 1) / $3) * $2::interval AS w FROM unnest($4::text[]) WITH ORDINALITY x (e, i)) y`,
		at, d.size, d.max, newNames(windows*d.max))
	return err
}
