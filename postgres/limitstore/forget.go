package limitstore

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
)

// forgetMost is how many receipts are looked through in one statement. They are
// found by looking through all of them, so that takes pay nothing for it.
const forgetMost = 5000

// Forget removes leases and request ids, and buckets that are full, which the
// sweeper may come by only much later. Each call does a part of it.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (next string, err error) {
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	after, err := base64.RawURLEncoding.DecodeString(f.Cursor)
	if err != nil {
		return "", &sluice.FieldError{Field: "forget.cursor", Value: f.Cursor, Reason: "must be what an earlier call returned"}
	}
	namespace, entities := postgres.Text(f.Namespace), make([]string, len(f.Entities))
	for i, entity := range f.Entities {
		entities[i] = postgres.Text(entity)
	}
	var last string
	var looked int
	err = s.call(ctx, nil, func(ctx context.Context, conn *pgx.Conn) error {
		if f.Cursor == "" {
			if err := s.forgetFull(ctx, conn, namespace, entities); err != nil {
				return err
			}
		}
		return conn.QueryRow(ctx, fmt.Sprintf(`
			WITH page AS (
				SELECT r.id, r.demands FROM %[1]s.receipt r WHERE r.id > $1 ORDER BY r.id LIMIT $2
			), gone AS (
				DELETE FROM %[1]s.receipt r USING page p WHERE r.id = p.id AND EXISTS (
					SELECT FROM unnest(p.demands) d
					WHERE d.namespace = $3 AND (cardinality($4::text[]) = 0 OR d.entity = ANY ($4))
				)
			)
			SELECT coalesce(max(p.id), ''), count(*) FROM page p`, s.db.Config.Schema),
			string(after), forgetMost, namespace, entities).Scan(&last, &looked)
	})
	if err != nil {
		return "", postgres.ReadError(err)
	}
	if looked < forgetMost {
		return "", nil
	}
	return base64.RawURLEncoding.EncodeToString([]byte(last)), nil
}

// forgetFull deletes buckets as the sweeper does.
func (s *Store) forgetFull(ctx context.Context, conn *pgx.Conn, namespace string, entities []string) error {
	where := "x.namespace = $2 AND x.entity = ANY ($3)"
	if len(entities) == 0 {
		where = "x.namespace = $2 AND cardinality($3::text[]) = 0"
	}
	_, err := conn.Exec(ctx, fmt.Sprintf(`
		WITH gone AS (
			DELETE FROM %[1]s.bucket b USING (
				SELECT x.ctid, c.now FROM (SELECT %[1]s.clock_v1($1) AS now) c CROSS JOIN %[1]s.bucket x
				WHERE %[2]s AND x.expires <= c.now AND (x.tickets IS NULL OR %[1]s.line_ends_v2(x.tickets) <= c.now)
				FOR UPDATE OF x SKIP LOCKED
			) full_ones WHERE b.ctid = full_ones.ctid RETURNING b.id, b.algorithm
		)
		DELETE FROM %[1]s.flight f USING gone WHERE f.bucket = gone.id AND gone.algorithm = 3`,
		s.db.Config.Schema, where), s.db.Given(), namespace, entities)
	return err
}
