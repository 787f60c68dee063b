package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// SlotsPooled reports whether s has found a pooler in between.
func SlotsPooled(s *Slots) bool { return s.pooled }

// ExplainSweep runs a statement of sweeping, undoes it, and answers its plan
// with the pages that it read.
func ExplainSweep(ctx context.Context, s *Slots, statement string, args ...any) (string, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // there is nothing to keep
	if _, err := tx.Exec(ctx, s.sql.sweep.steady, s.patience); err != nil {
		return "", err
	}
	// As the pool does it: prepared, with a plan for any values.
	if _, err := tx.Exec(ctx, "PREPARE explained AS "+statement); err != nil {
		return "", err
	}
	defer conn.Exec(ctx, "DEALLOCATE explained") //nolint:errcheck // it goes with the connection
	values := make([]string, len(args))
	for i, arg := range args {
		values[i] = fmt.Sprint(arg)
	}
	rows, err := tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) EXECUTE explained("+strings.Join(values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// SweepStatements are the statements of a sweep by their names.
func SweepStatements(s *Slots) map[string]string {
	q := &s.sql.sweep
	return map[string]string{
		"slots": q.slots, "runs": q.runs, "run": q.run,
		"windows looked at": q.windowsUntil, "empty windows": q.emptyWindows, "windows": q.empty,
		"entries looked at": q.entriesUntil, "entries": q.entries,
	}
}
