package sqlcatalog

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqldb"
)

// Purge is part of [catalog.Store].
func (c *Store) Purge(ctx context.Context, p catalog.Purge) (removed int, err error) {
	if p.Target > catalog.PurgeNodes {
		return 0, errors.ErrUnsupported
	}
	for _, span := range Spans(p) {
		if removed == p.Max {
			break
		}
		statement, n := c.PurgeStatement(p, span, p.Max-removed), 0
		err := c.DB.Update(ctx, func(tx sqldb.Tx) (err error) {
			n, err = tx.Exec(c.Steady, statement)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// Spans are the spans whose usage is purged, or one that does not matter.
func Spans(p catalog.Purge) []catalog.Span {
	if p.Target == catalog.PurgeUsage && p.Span == "" {
		return []catalog.Span{catalog.Hourly, catalog.Daily, catalog.Total}
	}
	return []catalog.Span{p.Span}
}

// PurgeStatement finds rows by an index and deletes them by their key.
func (c *Store) PurgeStatement(p catalog.Purge, span catalog.Span, most int) sqldb.Statement {
	var rows sqldb.Rows
	where := Select{}
	switch p.Target {
	case catalog.PurgeUsage:
		rows = purgeUsage(&where, p, span)
	case catalog.PurgeEvents:
		rows = sqldb.Rows{Table: "catalog_event", Key: "namespace, id", Order: "id"}
		where.Add("namespace = ?", p.Namespace)
		if p.Entity != "" {
			rows.From = "catalog_event_indexed"
			where.Add(" AND subject = ?", p.Entity)
		}
		if p.BeforeID != "" {
			where.Add(" AND id < ?", p.BeforeID)
		}
	case catalog.PurgeRecords:
		rows = sqldb.Rows{Table: "catalog_record", Key: "namespace, kind, id, sub", Order: "kind, id, sub"}
		where.Add("namespace = ?", p.Namespace)
	case catalog.PurgeChanges:
		return sqldb.Do(`UPDATE sluice.catalog_change SET namespace = '', kind = 'namespace', id = namespace WHERE seq IN
			(SELECT seq FROM sluice.catalog_change WHERE namespace = $1 AND id = $2 LIMIT $3)`, p.Namespace, p.Entity, most)
	case catalog.PurgeNodes:
		rows = sqldb.Rows{Table: "catalog_node", Key: "node", Order: "at"}
		where.Add("at < to_timestamp(?::bigint)", p.Before.Unix())
	}
	rows.Where, rows.Lock = where.SQL, " FOR UPDATE"
	where.SQL = ""
	where.Add("?", most)
	rows.Max = where.SQL
	return sqldb.Do(c.DB.Removal(rows), where.Args...)
}

func purgeUsage(where *Select, p catalog.Purge, span catalog.Span) sqldb.Rows {
	rows := sqldb.Rows{
		Table: "catalog_usage", Key: "namespace, span, entity, resource, lim, start", Order: "entity, resource, lim, start",
	}
	where.Add("namespace = ? AND span = ?", p.Namespace, string(span))
	if p.Entity != "" {
		where.Add(" AND entity = ?", p.Entity)
	}
	switch {
	case p.Before.IsZero():
	case span == catalog.Total:
		where.Add(` AND last < ? AND NOT EXISTS (SELECT 1 FROM sluice.catalog_usage d WHERE d.namespace = catalog_usage.namespace
			AND d.span = 'day' AND d.entity = catalog_usage.entity AND d.resource = catalog_usage.resource AND d.lim = catalog_usage.lim)`, p.Before.UnixMicro())
	default:
		if p.Entity == "" {
			rows.From, rows.Order = "catalog_usage_indexed", "start"
		}
		where.Add(" AND start < ?", seconds(p.Before))
	}
	return rows
}

// seconds is the first whole second at or after t.
func seconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
