package catalogstore

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
)

// Trace writes the messages of a connection of c to w. It is the next
// one that c uses, if there is one call at a time.
func Trace(ctx context.Context, c *Store, w io.Writer) error {
	return c.db.Call(ctx, func(_ context.Context, conn *pgx.Conn) error {
		conn.PgConn().Frontend().Trace(w, pgproto3.TracerOptions{SuppressTimestamps: true})
		return nil
	})
}

// Sum marks a query for [Store.SumUsage].
type Sum catalog.UsageQuery

// Explain is the plan of a list call, with figures of running it, or
// that of a purge, without.
func Explain(ctx context.Context, c *Store, query any) (plan string, err error) {
	var s *sqlcatalog.Select
	explain := "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF)"
	switch q := query.(type) {
	case catalog.ListQuery:
		s, err = sqlcatalog.ListStatement(q)
	case catalog.EventQuery:
		s, err = sqlcatalog.EventsStatement(q)
	case catalog.UsageQuery:
		s, err = sqlcatalog.UsageStatement(q)
	case Sum:
		s, err = sumStatement(catalog.UsageQuery(q))
	case catalog.Purge:
		s, explain = &sqlcatalog.Select{Statement: c.PurgeStatement(q)}, "EXPLAIN"
	}
	if err != nil {
		return "", err
	}
	values := make([]string, len(s.Args))
	for i, arg := range s.Args {
		values[i] = "'" + strings.ReplaceAll(fmt.Sprint(arg), "'", "''") + "'"
	}
	err = c.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer conn.Exec(ctx, "DEALLOCATE explained") //nolint:errcheck // it goes with the connection
		defer tx.Rollback(ctx)                       //nolint:errcheck // there is nothing to keep
		if _, err := tx.Exec(ctx, c.db.In("SELECT sluice.catalog_steady_v1()")); err != nil {
			return err
		}
		// As the pool does it: prepared, with a plan for any values.
		if _, err := tx.Exec(ctx, "PREPARE explained AS "+c.db.In(s.SQL)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, explain+" EXECUTE explained("+strings.Join(values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan = strings.Join(lines, "\n")
		return err
	})
	return plan, err
}
