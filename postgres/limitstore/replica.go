package limitstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/lag"
	"github.com/sluice-go/sluice/postgres"
)

// replica is a standby from which buckets are listed while it is close behind the
// primary.
type replica struct {
	lag.Meter
	db *postgres.DB // nil without one
}

const (
	written  = `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn`
	replayed = `SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn WHERE pg_is_in_recovery()`
)

// followReplica measures the lag until the store is closed.
func (s *Store) followReplica() {
	for backoff.Sleep(s.db.Life(), lag.Every) {
		s.replica.Measure(func() (int64, bool) { return position(s.db, written) },
			func() (int64, bool) { return position(s.replica.db, replayed) })
	}
}

// position returns how much of the stream of writes a server has. One that is no
// standby any more has replayed nothing.
func position(db *postgres.DB, sql string) (bytes int64, ok bool) {
	err := db.Call(db.Life(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql).Scan(&bytes)
	})
	return bytes, err == nil
}
