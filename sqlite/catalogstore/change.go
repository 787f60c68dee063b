package catalogstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
)

// watchEvery is how often other processes' changes are looked for.
const watchEvery = 250 * time.Millisecond

// Change is part of [catalog.Store].
func (c *Store) Change(ctx context.Context, b *catalog.Batch) (version int64, err error) {
	if err := sqlcatalog.TooMany("mutations and events", len(b.Mutations)+len(b.Events)); err != nil {
		return 0, err
	}
	err = c.db.Write(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO catalog_version VALUES (?, 1)
			ON CONFLICT DO UPDATE SET version = version + 1 RETURNING version`, b.Namespace).Scan(&version)
		if err != nil {
			return err
		}
		for i := range b.Mutations {
			if err := checkCondition(ctx, tx, b, i); err != nil {
				return err
			}
		}
		return apply(ctx, tx, b, version)
	})
	return version, err
}

func checkCondition(ctx context.Context, tx *sql.Tx, b *catalog.Batch, i int) error {
	m := &b.Mutations[i]
	if m.If == catalog.IfAny {
		return nil
	}
	k := m.Record.RecordKey
	var have int64
	err := tx.QueryRowContext(ctx, `SELECT version FROM catalog_record WHERE namespace = ? AND kind = ? AND id = ? AND sub = ?`,
		k.Namespace, k.Kind, k.ID, k.Sub).Scan(&have)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if have == m.If || m.If == catalog.IfPresent && have != 0 { // IfAbsent is 0
		return nil
	}
	return &catalog.ConflictError{Index: i, Key: k, If: m.If, Version: have}
}

func apply(ctx context.Context, tx *sql.Tx, b *catalog.Batch, version int64) error {
	for i := range b.Mutations {
		m := &b.Mutations[i]
		if err := mutate(ctx, tx, m, version); err != nil {
			return fmt.Errorf("%s %s: %w", m.Record.Kind, m.Record.ID, err)
		}
	}
	for _, e := range b.Events {
		if _, err := tx.ExecContext(ctx, `INSERT INTO catalog_event (namespace, id, subject, data) VALUES (?, ?, ?, ?)`,
			e.Namespace, e.ID, e.Subject, blob(e.Data)); err != nil {
			return fmt.Errorf("event %s: %w", e.ID, err)
		}
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM catalog_change
		WHERE seq <= (SELECT max(seq) FROM catalog_change) - ?`, sqlcatalog.KeptChanges)
	return err
}

func mutate(ctx context.Context, tx *sql.Tx, m *catalog.Mutation, version int64) error {
	r := &m.Record
	var err error
	switch m.Op {
	case catalog.Check:
		return nil
	case catalog.Put:
		_, err = tx.ExecContext(ctx, `INSERT INTO catalog_record (namespace, kind, id, sub, version, under, tier, source, data)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (namespace, kind, id, sub) DO UPDATE SET version = excluded.version, under = excluded.under,
				tier = excluded.tier, source = excluded.source, data = excluded.data`,
			r.Namespace, r.Kind, r.ID, r.Sub, version, r.Under, r.Tier, r.Source, blob(r.Data))
	case catalog.Delete:
		_, err = tx.ExecContext(ctx, `DELETE FROM catalog_record WHERE namespace = ? AND kind = ? AND id = ? AND sub = ?`,
			r.Namespace, r.Kind, r.ID, r.Sub)
	}
	if err != nil || r.Kind == catalog.KindGuard {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO catalog_change (namespace, kind, id) VALUES (?, ?, ?)`, r.Namespace, r.Kind, r.ID)
	return err
}

// blob is data that is not NULL even if there is none.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Watch is part of [catalog.Store]. SQLite tells nobody of changes, so it
// looks at the log of changes, which costs one step into an index.
func (c *Store) Watch(ctx context.Context, changed func(catalog.Changed)) error {
	var seen int64
	if err := c.db.Reader().QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM catalog_change`).Scan(&seen); err != nil {
		return err
	}
	changed(catalog.Changed{All: true})
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		err := c.query(ctx, `SELECT seq, namespace, kind, id FROM catalog_change WHERE seq > ? ORDER BY seq`, []any{seen}, func(rows *sql.Rows) error {
			var seq int64
			var change catalog.Changed
			if err := rows.Scan(&seq, &change.Namespace, &change.Kind, &change.ID); err != nil {
				return err
			}
			if seq != seen+1 { // the log was cut before we came
				changed(catalog.Changed{All: true})
			}
			seen = seq
			changed(change)
			return nil
		})
		if err != nil {
			return err
		}
	}
}
