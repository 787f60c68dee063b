package slotstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Pooled reports whether s has found a pooler in between.
func Pooled(s *Store) bool { return s.db.Patience() != nil }

// ExplainSweep runs a statement of sweeping, undoes it, and answers its plan
// with the pages that it read.
func ExplainSweep(ctx context.Context, s *Store, statement string, args ...any) (plan string, err error) {
	values := make([]string, len(args))
	for i, arg := range args {
		values[i] = fmt.Sprint(arg)
	}
	err = s.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer conn.Exec(ctx, "DEALLOCATE explained") //nolint:errcheck // it goes with the connection
		defer tx.Rollback(ctx)                       //nolint:errcheck // there is nothing to keep
		if _, err := tx.Exec(ctx, s.Steady.SQL, s.Steady.Args...); err != nil {
			return err
		}
		// As the pool does it: prepared, with a plan for any values.
		if _, err := tx.Exec(ctx, "PREPARE explained AS "+s.db.In(statement)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) EXECUTE explained("+strings.Join(values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan = strings.Join(lines, "\n")
		return err
	})
	return plan, err
}
