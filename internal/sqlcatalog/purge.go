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
	statement := c.PurgeStatement(p)
	err = c.DB.Update(ctx, func(tx sqldb.Tx) (err error) {
		removed, err = tx.Exec(c.Steady, statement)
		return err
	})
	return removed, err
}

// PurgeStatement finds rows by an index and deletes them by their key.
func (c *Store) PurgeStatement(p catalog.Purge) sqldb.Statement {
	var rows sqldb.Rows
	where := Select{}
	switch p.Target {
	case catalog.PurgeUsage:
		rows = purgeUsage(&where, p)
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
			(SELECT seq FROM sluice.catalog_change WHERE namespace = $1 AND id = $2 LIMIT $3)`, p.Namespace, p.Entity, p.Max)
	case catalog.PurgeNodes:
		rows = sqldb.Rows{Table: "catalog_node", Key: "node", Order: "at"}
		where.Add("at < to_timestamp(?::bigint)", p.Before.Unix())
	}
	rows.Where, rows.Lock = where.SQL, " FOR UPDATE"
	where.SQL = ""
	where.Add("?", p.Max)
	rows.Max = where.SQL
	return sqldb.Do(c.DB.Removal(rows), where.Args...)
}

func purgeUsage(where *Select, p catalog.Purge) sqldb.Rows {
	rows := sqldb.Rows{Table: "catalog_bin", Key: "series, span, start"}
	if p.Before.IsZero() {
		rows.From, rows.Order = "catalog_usage", "entity, resource, lim"
		where.Add("namespace = ?", p.Namespace)
		if p.Entity != "" {
			where.Add(" AND entity = ?", p.Entity)
		}
		return rows
	}
	rows.From, rows.Order = "catalog_bin_indexed b", "start"
	where.Add("span = ?", string(p.Span))
	if p.Span == catalog.Total {
		where.Add(` AND last < ? AND NOT EXISTS (SELECT 1 FROM sluice.catalog_bin d WHERE d.series = b.series AND d.span = 'day')`, p.Before.UnixMicro())
	} else {
		where.Add(" AND start < ?", seconds(p.Before))
	}
	if p.Namespace != "" {
		where.Add(" AND EXISTS (SELECT 1 FROM sluice.catalog_series s WHERE s.id = b.series AND s.namespace = ?)", p.Namespace)
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
