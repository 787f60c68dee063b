package catalogstore

import (
	"context"
	"database/sql"

	"github.com/sluice-go/sluice/catalog"
)

// Events is part of [catalog.Store].
func (c *Store) Events(ctx context.Context, q catalog.EventQuery) (catalog.EventPage, error) {
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
	// There is one bound on each side: of two, SQLite may search by the wider
	// one and read all rows between them.
	from, to, begin := q.From, q.To, ` AND id >= ?`
	order := ` ORDER BY id LIMIT ?`
	if q.Newest {
		order = ` ORDER BY id DESC LIMIT ?`
	}
	switch {
	case after == nil:
	case q.Newest && (to == "" || after[0] < to):
		to = after[0]
	case !q.Newest && after[0] >= from:
		from, begin = after[0], ` AND id > ?`
	}
	if from != "" {
		add(begin, from)
	}
	if to != "" {
		add(` AND id < ?`, to)
	}
	return statement + order, append(args, q.Max+1), nil
}
