package catalogstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
)

// Every change is in a log that has numbers without gaps, in the order of
// commits. Notifications only say that it is time to read on, so nothing
// depends on getting all of them.

const (
	// lookEvery is how often the log is looked at without being told to:
	// where nobody can tell, as a precaution, and to notice a connection that
	// leads nowhere any more. With lookTimeout it takes less than a second.
	lookEvery   = 250 * time.Millisecond
	lookTimeout = 700 * time.Millisecond
)

// channel is where notifications go. PostgreSQL allows 63 bytes; schemas with
// the same beginning may share one, and then look once too often.
func (c *Store) channel() string {
	name := "catalog_" + c.db.Config.Schema
	return name[:min(len(name), 63)]
}

// Watch is part of [catalog.Store]. It listens on a connection of its own;
// through a pooler, and without an address to listen at, it only looks four
// times a second.
func (c *Store) Watch(ctx context.Context, changed func(catalog.Changed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.db.Life(), cancel)()
	var err error
	if !c.db.CanListen() {
		err = c.watchPooled(ctx, changed)
	} else {
		err = c.watchListening(ctx, changed)
	}
	switch {
	case c.db.Life().Err() != nil:
		return postgres.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return postgres.UnavailableError(err)
}

func (c *Store) watchPooled(ctx context.Context, changed func(catalog.Changed)) error {
	r := reader{changed: changed}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := c.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error { return r.read(ctx, c, conn) })
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *Store) watchListening(ctx context.Context, changed func(catalog.Changed)) error {
	conn, err := c.db.Listen(ctx, c.channel())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it ends either way
	r := reader{changed: changed}
	for {
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		err := r.read(looking, c, conn)
		cancel()
		if err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, lookEvery)
		_, err = conn.WaitForNotification(waiting)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}

// reader reads the log of changes.
type reader struct {
	changed func(catalog.Changed)
	began   bool
	seen    int64 // the last change that was told
}

// logged is a change in the log; without a number if there is none.
type logged struct {
	newest int64 // in the log
	seq    *int64
	catalog.Changed
}

// read tells of what is new. The first time, and when it cannot tell, that is
// everything.
func (r *reader) read(ctx context.Context, c *Store, conn *pgx.Conn) error {
	from := r.seen
	if !r.began {
		from = 1<<63 - 1 // only where the log ends
	}
	rows, err := conn.Query(ctx, c.db.In(`SELECT l.seq, c.seq, coalesce(c.namespace, ''), coalesce(c.kind, ''), coalesce(c.id, '')
		FROM sluice.catalog_last l LEFT JOIN LATERAL (
			SELECT x.* FROM sluice.catalog_change x WHERE x.seq > $1 ORDER BY x.seq
		) c ON true`), from)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l logged, err error) {
		err = row.Scan(&l.newest, &l.seq, &l.Namespace, &l.Kind, &l.ID)
		return l, err
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("table catalog_last is empty: it must have one row")
	}
	newest := found[0].newest
	// The log may have been cut before we came, or set back by a restored
	// backup.
	missed := newest < r.seen || newest > r.seen && (found[0].seq == nil || *found[0].seq != r.seen+1)
	if !r.began || missed {
		r.began, r.seen = true, newest
		r.changed(catalog.Changed{All: true})
		return nil
	}
	for i := range found {
		if found[i].seq != nil {
			r.seen = *found[i].seq
			r.changed(found[i].Changed)
		}
	}
	return nil
}
