package catalogstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/catalog"
)

// statement is SQL with a ? for each argument.
type statement struct {
	text string
	args []any
}

func (s *statement) add(text string, args ...any) {
	for _, arg := range args {
		s.args = append(s.args, arg)
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", len(s.args)), 1)
	}
	s.text += text
}

// list runs a statement so that its plan does not depend on what the planner
// knows, which takes no round trip more.
func list[T any](ctx context.Context, c *Store, s *statement, scan func(pgx.CollectableRow) (T, error)) (found []T, err error) {
	err = c.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var b pgx.Batch
		b.Queue(c.db.In(`SELECT sluice.catalog_steady_v1()`))
		b.Queue(c.db.In(s.text), s.args...).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, scan)
			return err
		})
		return conn.SendBatch(ctx, &b).Close()
	})
	return found, err
}

// List is part of [catalog.Store].
func (c *Store) List(ctx context.Context, q catalog.ListQuery) (catalog.RecordPage, error) {
	s, err := listStatement(q)
	if err != nil {
		return catalog.RecordPage{}, err
	}
	records, err := list(ctx, c, s, scanRecord)
	page := catalog.RecordPage{Records: records}
	if len(records) > q.Max {
		page.Records = records[:q.Max]
		last := page.Records[q.Max-1]
		page.Next = catalog.EncodeCursor(last.ID, last.Sub)
	}
	return page, err
}

// listStatement asks for one record more than the page has, to know whether
// there is a next one.
func listStatement(q catalog.ListQuery) (*statement, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 2)
	if err != nil {
		return nil, err
	}
	by, value := "", ""
	switch {
	case q.Under != "":
		by, value = "under", q.Under
	case q.Tier != "":
		by, value = "tier", q.Tier
	case q.Source != "":
		by, value = "source", q.Source
	}
	var s statement
	s.add(`SELECT ` + recordColumns + ` FROM sluice.catalog_record`)
	if by != "" {
		s.add(`_indexed`)
	}
	s.add(` r WHERE r.namespace = ? AND r.kind = ?`, q.Namespace, string(q.Kind))
	if by != "" {
		s.add(` AND r.`+by+` = ? AND r.`+by+` <> ''`, value) // the indexes leave out what is empty
	}
	if q.ID != "" {
		s.add(` AND r.id = ?`, q.ID)
	}
	switch {
	case after != nil && q.ID != "":
		s.add(` AND r.sub > ?`, after[1])
	case after != nil:
		s.add(` AND (r.id, r.sub) > (?, ?)`, after[0], after[1])
	}
	s.add(` ORDER BY r.id, r.sub LIMIT ?`, q.Max+1)
	return &s, nil
}

// Events is part of [catalog.Store].
func (c *Store) Events(ctx context.Context, q catalog.EventQuery) (catalog.EventPage, error) {
	s, err := eventsStatement(q)
	if err != nil {
		return catalog.EventPage{}, err
	}
	events, err := list(ctx, c, s, func(row pgx.CollectableRow) (e catalog.EventRecord, err error) {
		err = row.Scan(&e.Namespace, &e.ID, &e.Subject, &e.Data)
		return e, err
	})
	page := catalog.EventPage{Events: events}
	if len(events) > q.Max {
		page.Events = events[:q.Max]
		page.Next = catalog.EncodeCursor(page.Events[q.Max-1].ID)
	}
	return page, err
}

func eventsStatement(q catalog.EventQuery) (*statement, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 1)
	if err != nil {
		return nil, err
	}
	var s statement
	s.add(`SELECT e.namespace, e.id, e.subject, e.data FROM sluice.`)
	if q.Subject == "" {
		s.add(`catalog_event e WHERE e.namespace = ?`, q.Namespace)
	} else {
		s.add(`catalog_event_indexed e WHERE e.namespace = ? AND e.subject = ?`, q.Namespace, q.Subject)
	}
	// One bound at each end, so that the index is entered at the right place.
	low, high, above := q.From, q.To, ">="
	switch {
	case after == nil:
	case !q.Newest && after[0] >= low:
		low, above = after[0], ">"
	case q.Newest && (high == "" || after[0] < high):
		high = after[0]
	}
	if low != "" {
		s.add(` AND e.id `+above+` ?`, low)
	}
	if high != "" {
		s.add(` AND e.id < ?`, high)
	}
	order := ""
	if q.Newest {
		order = " DESC"
	}
	s.add(` ORDER BY e.id`+order+` LIMIT ?`, q.Max+1)
	return &s, nil
}

// prefixed puts the name of a table before each column.
func prefixed(table, columns string) string {
	return table + strings.ReplaceAll(columns, ", ", ", "+table)
}
