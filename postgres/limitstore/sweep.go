package limitstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/internal/backoff"
)

const (
	// sweepMost is how many buckets are looked at in one go, and how many
	// receipts are deleted at most: enough for thousands of new ones a
	// second, few enough to take milliseconds.
	sweepMost = 2000

	// sweepEvery is how often, for all nodes together.
	sweepEvery = time.Second
)

// sweepRegularly deletes expired buckets and receipts, a few at a time.
func (s *Store) sweepRegularly() {
	for backoff.Sleep(s.db.Life(), sweepEvery+rand.N(sweepEvery/4)) {
		if _, err := s.sweep(s.db.Life(), sweepEvery); err != nil && s.db.Life().Err() == nil {
			s.db.Config.Log.Warn("postgres store: expired buckets could not be swept", "error", err)
		}
	}
}

// swept is what a sweep did.
type swept struct{ looked, buckets, receipts int }

func (s *Store) sweep(ctx context.Context, pause time.Duration) (n swept, err error) {
	var now int64
	err = s.call(ctx, &now, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql.sweep, s.db.Given(), sweepMost, pause).Scan(&now, &n.looked, &n.buckets, &n.receipts)
	})
	return n, err
}
