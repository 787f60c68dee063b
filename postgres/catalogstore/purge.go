package catalogstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/catalog"
)

// Purge is part of [catalog.Store].
func (c *Store) Purge(ctx context.Context, p catalog.Purge) (removed int, err error) {
	selections := purgeSelections(p)
	if selections == nil {
		return 0, errors.ErrUnsupported
	}
	for _, s := range selections {
		if removed == p.Max {
			break
		}
		n, err := c.purge(ctx, s, p.Max-removed)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (c *Store) purge(ctx context.Context, s selection, most int) (removed int, err error) {
	d := s.remove(most)
	err = c.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		removed = 0
		var b pgx.Batch // one transaction, and one round trip
		b.Queue(c.db.In(`SELECT sluice.ready_v1($1), sluice.catalog_steady_v1()`), c.db.Patience())
		b.Queue(c.db.In(d.text), d.args...).Exec(func(tag pgconn.CommandTag) error {
			removed = int(tag.RowsAffected())
			return nil
		})
		return conn.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// selection is which rows of a table to remove, and in which order, so that
// they are found by an index.
type selection struct {
	table, key string
	from       string // the table or its view
	where      statement
	order      string
}

// remove deletes the first rows. It does so by their key, not by their place,
// because another may be writing them, which moves them.
func (s *selection) remove(most int) *statement {
	d := statement{args: s.where.args}
	d.add(`DELETE FROM sluice.` + s.table + ` u USING (SELECT ` + prefixed("x.", s.key) + ` FROM sluice.` + s.from + ` x WHERE `)
	d.add(s.where.text)
	d.add(` ORDER BY `+prefixed("x.", s.order)+` LIMIT ? FOR UPDATE) gone WHERE true`, most)
	for column := range strings.SplitSeq(s.key, ", ") {
		d.add(` AND u.` + column + ` = gone.` + column)
		if column != "start" {
			d.add(` COLLATE "C"`)
		}
	}
	return &d
}

func purgeSelections(p catalog.Purge) []selection {
	switch p.Target {
	case catalog.PurgeUsage:
		spans := []catalog.Span{catalog.Hourly, catalog.Daily, catalog.Total}
		if p.Span != "" {
			spans = []catalog.Span{p.Span}
		}
		var all []selection
		for _, span := range spans {
			all = append(all, usageSelection(p, span))
		}
		return all
	case catalog.PurgeEvents:
		return []selection{eventSelection(p)}
	case catalog.PurgeRecords:
		s := selection{table: "catalog_record", from: "catalog_record", key: "namespace, kind, id, sub", order: "kind, id, sub"}
		s.where.add(`x.namespace = ?`, p.Namespace)
		return []selection{s}
	case catalog.PurgeNodes:
		s := selection{table: "catalog_node", from: "catalog_node", key: "node", order: "at"}
		s.where.add(`x.at < ?`, p.Before)
		return []selection{s}
	}
	return nil
}

func usageSelection(p catalog.Purge, span catalog.Span) selection {
	s := selection{
		table: "catalog_usage", from: "catalog_usage",
		key: "namespace, span, entity, resource, lim, start", order: "entity, resource, lim, start",
	}
	s.where.add(`x.namespace = ? AND x.span = ?`, p.Namespace, string(span))
	if p.Entity != "" {
		s.where.add(` AND x.entity = ?`, p.Entity)
	}
	switch {
	case p.Before.IsZero():
	case span == catalog.Total:
		s.where.add(` AND x.last < ? AND NOT EXISTS (SELECT FROM sluice.catalog_usage d WHERE d.namespace = x.namespace
			AND d.span = 'day' AND d.entity = x.entity AND d.resource = x.resource AND d.lim = x.lim)`, p.Before.UnixMicro())
	default:
		if p.Entity == "" {
			s.from, s.order = "catalog_usage_indexed", "start"
		}
		s.where.add(` AND x.start < ?`, seconds(p.Before))
	}
	return s
}

// seconds is the first whole second at or after t.
func seconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

func eventSelection(p catalog.Purge) selection {
	s := selection{table: "catalog_event", from: "catalog_event", key: "namespace, id", order: "id"}
	s.where.add(`x.namespace = ?`, p.Namespace)
	if p.Entity != "" {
		s.from = "catalog_event_indexed"
		s.where.add(` AND x.subject = ?`, p.Entity)
	}
	if p.BeforeID != "" {
		s.where.add(` AND x.id < ?`, p.BeforeID)
	}
	return s
}
