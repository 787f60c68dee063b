package sqlite

import (
	"context"
	"database/sql"

	"github.com/sluice-go/sluice/catalog"
)

// Events is part of [catalog.Store].
func (c *Catalog) Events(ctx context.Context, q catalog.EventQuery) (catalog.EventPage, error) {
	statement, args, err := eventsStatement(q)
	if err != nil {
		return catalog.EventPage{}, err
	}
	var page catalog.EventPage
	err = c.query(ctx, statement, args, func(rows *sql.Rows) error {
		var e catalog.EventRecord
		err := rows.Scan(&e.Namespace, &e.ID, &e.Subject, &e.Data)
		page.Events = append(page.Events, e)
		return err
	})
	if len(page.Events) > q.Max {
		page.Events = page.Events[:q.Max]
		page.Next = catalog.EncodeCursor(page.Events[q.Max-1].ID)
	}
	return page, err
}

func eventsStatement(q catalog.EventQuery) (string, []any, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 1)
	if err != nil {
		return "", nil, err
	}
	statement := `SELECT namespace, id, subject, data FROM catalog_event WHERE namespace = ?`
	args := []any{q.Namespace}
	add := func(condition, value string) { statement, args = statement+condition, append(args, value) }
	if q.Subject != "" {
		add(` AND subject = ?`, q.Subject)
	}
	if q.From != "" {
		add(` AND id >= ?`, q.From)
	}
	if q.To != "" {
		add(` AND id < ?`, q.To)
	}
	order := ` ORDER BY id LIMIT ?`
	if q.Newest {
		order = ` ORDER BY id DESC LIMIT ?`
	}
	switch {
	case after != nil && q.Newest:
		add(` AND id < ?`, after[0])
	case after != nil:
		add(` AND id > ?`, after[0])
	}
	return statement + order, append(args, q.Max+1), nil
}
