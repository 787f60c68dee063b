package catalogstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
)

// Change is part of [catalog.Store]. It is one call of a function and so one
// transaction and one round trip.
func (c *Store) Change(ctx context.Context, b *catalog.Batch) (version int64, err error) {
	if err := sqlcatalog.TooMany("mutations and events", len(b.Mutations)+len(b.Events)); err != nil {
		return 0, err
	}
	args := append([]any{unprepared, c.db.Patience(), c.channel(), sqlcatalog.KeptChanges, b.Namespace}, mutationArgs(b.Mutations)...)
	args = append(args, eventArgs(b.Events)...)
	var fresh, conflict, present *int64
	err = c.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		fresh, conflict, present = nil, nil, nil
		return conn.QueryRow(ctx, c.db.In(`SELECT fresh, conflict, present FROM sluice.catalog_change_v1(
			$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`), args...).
			Scan(&fresh, &conflict, &present)
	})
	if err != nil {
		return 0, err
	}
	if conflict != nil {
		i := int(*conflict) - 1
		return 0, &catalog.ConflictError{Index: i, Key: b.Mutations[i].Record.RecordKey, If: b.Mutations[i].If, Version: *present}
	}
	return *fresh, nil
}

func mutationArgs(mutations []catalog.Mutation) []any {
	n := len(mutations)
	ops, conditions := make([]int16, n), make([]int64, n)
	texts := newColumns(8, n)
	for i := range mutations {
		m := &mutations[i]
		r := &m.Record
		ops[i], conditions[i] = int16(m.Op), m.If
		texts.set(i, r.Namespace, string(r.Kind), r.ID, r.Sub, r.Under, r.Tier, r.Source)
		if m.Op == catalog.Put {
			texts[7][i] = string(r.Data)
		}
	}
	return []any{ops, texts[0], texts[1], texts[2], texts[3], conditions, texts[4], texts[5], texts[6], texts[7]}
}

func eventArgs(events []catalog.EventRecord) []any {
	texts := newColumns(4, len(events))
	for i := range events {
		e := &events[i]
		texts.set(i, e.Namespace, e.ID, e.Subject, string(e.Data))
	}
	return []any{texts[0], texts[1], texts[2], texts[3]}
}

// columns are rows turned on their side, as arrays for the database.
type columns [][]string

func newColumns(n, rows int) columns {
	c := make(columns, n)
	for i := range c {
		c[i] = make([]string, rows)
	}
	return c
}

func (c columns) set(row int, values ...string) {
	for i, v := range values {
		c[i][row] = v
	}
}
