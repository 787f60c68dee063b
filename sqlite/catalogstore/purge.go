package catalogstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/sqlite"
)

// Purge is part of [catalog.Store].
func (c *Store) Purge(ctx context.Context, p catalog.Purge) (removed int, err error) {
	for _, s := range purgeStatements(p) {
		if removed == p.Max {
			break
		}
		err := c.db.Write(ctx, func(tx *sql.Tx) error {
			n, err := sqlite.Exec(ctx, tx, s.statement, append(s.args, p.Max-removed)...)
			removed += n
			return err
		})
		if err != nil {
			return removed, err
		}
	}
	if p.Target > catalog.PurgeNodes {
		return 0, errors.ErrUnsupported
	}
	return removed, nil
}

type purgeStatement struct {
	statement string
	args      []any
}

// purgeStatements find rows by an index and delete them by their key.
func purgeStatements(p catalog.Purge) []purgeStatement {
	const usage = `DELETE FROM catalog_usage WHERE (namespace, span, entity, resource, lim, start) IN
		(SELECT namespace, span, entity, resource, lim, start FROM catalog_usage WHERE namespace = ? AND span = ?`
	switch p.Target {
	case catalog.PurgeUsage:
		spans := []catalog.Span{catalog.Hourly, catalog.Daily, catalog.Total}
		if p.Span != "" {
			spans = []catalog.Span{p.Span}
		}
		var all []purgeStatement
		for _, span := range spans {
			s := purgeStatement{usage, []any{p.Namespace, span}}
			if p.Entity != "" {
				s = purgeStatement{s.statement + ` AND entity = ?`, append(s.args, p.Entity)}
			}
			switch {
			case p.Before.IsZero():
			case span == catalog.Total:
				s = purgeStatement{s.statement + ` AND last < ? AND NOT EXISTS (SELECT 1 FROM catalog_usage d WHERE d.namespace = catalog_usage.namespace
					AND d.span = 'day' AND d.entity = catalog_usage.entity AND d.resource = catalog_usage.resource AND d.lim = catalog_usage.lim)`,
					append(s.args, p.Before.UnixMicro())}
			default:
				s = purgeStatement{s.statement + ` AND start < ?`, append(s.args, p.Before.Unix())}
			}
			s.statement += ` LIMIT ?)`
			all = append(all, s)
		}
		return all
	case catalog.PurgeEvents:
		s := purgeStatement{`DELETE FROM catalog_event WHERE (namespace, id) IN
			(SELECT namespace, id FROM catalog_event WHERE namespace = ?`, []any{p.Namespace}}
		if p.Entity != "" {
			s = purgeStatement{s.statement + ` AND subject = ?`, append(s.args, p.Entity)}
		}
		if p.BeforeID != "" {
			s = purgeStatement{s.statement + ` AND id < ?`, append(s.args, p.BeforeID)}
		}
		s.statement += ` LIMIT ?)`
		return []purgeStatement{s}
	case catalog.PurgeRecords:
		return []purgeStatement{{`DELETE FROM catalog_record WHERE (namespace, kind, id, sub) IN
			(SELECT namespace, kind, id, sub FROM catalog_record WHERE namespace = ? LIMIT ?)`, []any{p.Namespace}}}
	case catalog.PurgeNodes:
		return []purgeStatement{{`DELETE FROM catalog_node WHERE node IN
			(SELECT node FROM catalog_node WHERE at < ? LIMIT ?)`, []any{p.Before.Unix()}}}
	}
	return nil
}
