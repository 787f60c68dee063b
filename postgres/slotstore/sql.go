package slotstore

import "github.com/sluice-go/sluice/internal/sqlslots"

const (
	assignSQL    = "SELECT * FROM sluice.slot_assign_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
	assignFewSQL = "SELECT * FROM sluice.slot_assign_few_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
	grabSQL      = "SELECT * FROM sluice.slot_grab_v1($1, $2, $3, $4, $5, $6, $7)"
	prepareSQL   = "SELECT sluice.slot_prepare_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)"

	// The events that had a slot before. In order of their names, so that
	// two batches with the same events cannot wait for each other.
	fillSQL = `WITH x AS MATERIALIZED (
				SELECT * FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[]) x (event, win, at, requested, payload)
				ORDER BY event
			), added AS (
				INSERT INTO sluice.slot (plan, win, at, requested, created, due, version, namespace, event, payload)
				SELECT $1, x.win, x.at, x.requested, $3, x.at, $2, $4, x.event, x.payload FROM x
				ON CONFLICT DO NOTHING RETURNING event, win
			), counted AS (
				UPDATE sluice.slot_window w SET used = w.used + c.n, room = w.used + c.n < w.cap
				FROM (SELECT win, count(*)::int AS n FROM added GROUP BY win) c
				WHERE w.plan = $1 AND w.start = c.win
			)
			SELECT x.event FROM x LEFT JOIN added ON added.event = x.event WHERE added.event IS NULL`

	slotSQL = "SELECT " + sqlslots.Columns + " FROM sluice.slot s JOIN sluice.slot_plan p ON p.id = s.plan WHERE s.namespace = $1 AND s.event = ANY($2)"

	claimSQL = `WITH noted AS (
				UPDATE sluice.slot_plan SET dispatched = true WHERE namespace = $1 AND name = $2 AND NOT dispatched
			), due AS MATERIALIZED (
				SELECT s.namespace, s.event, s.state, s.fence, s.attempts, s.worker FROM sluice.slot s
				WHERE s.plan = (SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2 AND NOT paused)
					AND s.state < 2 AND s.due <= $3
				ORDER BY s.due LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
			), claimed AS (
				UPDATE sluice.slot s SET state = 1, worker = $5, due = $6, attempts = s.attempts + 1, fence = s.fence + 1
				FROM due d WHERE s.namespace = d.namespace AND s.event = d.event
				RETURNING s.*, d.state AS was
			), audited AS (
				INSERT INTO sluice.slot_audit (time, namespace, plan, event, action, attempt, fence, worker, scheduled)
				SELECT * FROM (
					SELECT $3::bigint, s.namespace, s.plan, s.event, 'lost', d.attempts, d.fence, coalesce(d.worker, ''), s.at
					FROM claimed s JOIN due d ON d.namespace = s.namespace AND d.event = s.event WHERE d.state = 1
					UNION ALL
					SELECT $3, s.namespace, s.plan, s.event, 'claimed', s.attempts, s.fence, s.worker, s.at FROM claimed s
				) entries
			)
			SELECT ` + sqlslots.Columns + " FROM claimed s JOIN sluice.slot_plan p ON p.id = s.plan ORDER BY s.at"
)
