package slotstore

const (
	slotColumns = `s.event, p.name, s.version, s.win, s.at, s.requested, s.created, s.state, s.attempts,
		s.due, coalesce(s.worker, ''), s.fence, s.payload`
	slotFrom = " FROM sluice.slot s JOIN sluice.slot_plan p ON p.id = s.plan "

	planColumns = `p.name, v.version, v.max_per_window, v.window_size, v.headroom, v.calendar, v.created, v.starts,
		p.paused, p.version = v.version`

	planID = "(SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2)"
)

// slotEnd is when a slot that is finished now, or its window, ends.
func slotEnd(now string) string {
	return "greatest(" + now + `::bigint, at,
		(SELECT w.start + w.size FROM sluice.slot_window w WHERE w.plan = slot.plan AND w.start = slot.win))`
}

func newStatements(in func(string) string) statements {
	return statements{
		assign:    in("SELECT * FROM sluice.slot_assign_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"),
		assignFew: in("SELECT * FROM sluice.slot_assign_few_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"),
		grab:      in("SELECT * FROM sluice.slot_grab_v1($1, $2, $3, $4, $5, $6, $7)"),
		prepare:   in("SELECT sluice.slot_prepare_v1($1, $2, $3, $4, $5, $6, $7, $8, $9)"),

		// The events that had a slot before. In order of their names, so that
		// two batches with the same events cannot wait for each other.
		fill: in(`WITH x AS MATERIALIZED (
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
			SELECT x.event FROM x LEFT JOIN added ON added.event = x.event WHERE added.event IS NULL`),

		slot: in("SELECT " + slotColumns + slotFrom + "WHERE s.namespace = $1 AND s.event = ANY($2)"),

		plan: in("SELECT " + planColumns + `, p.id, p.eras, sluice.slot_frontier_v1(p.id)
			FROM sluice.slot_plan p JOIN sluice.slot_version v ON v.plan = p.id AND v.version = p.version
			WHERE p.namespace = $1 AND p.name = $2`),
		plans: in("SELECT " + planColumns + ` FROM sluice.slot_plan p JOIN sluice.slot_version v ON v.plan = p.id AND v.version = p.version
			WHERE p.namespace = $1 AND p.name > $2 ORDER BY p.name LIMIT $3`),
		versions: in("SELECT " + planColumns + ` FROM sluice.slot_plan p JOIN sluice.slot_version v ON v.plan = p.id
			WHERE p.namespace = $1 AND p.name = $2 ORDER BY v.version DESC LIMIT $3`),

		between: in("SELECT " + slotColumns + slotFrom + "WHERE s.plan = " + planID + ` AND s.at >= greatest($3::bigint, $5) AND s.at < $4
			AND (s.at, s.event) > ($5, $6 COLLATE "C") ORDER BY s.at, s.event LIMIT $7`),
		// What was never claimed is due when it is scheduled.
		unstarted: in("SELECT " + slotColumns + slotFrom + "WHERE s.plan = " + planID + ` AND s.state < 2 AND s.state = 0 AND s.fence = 0
			AND s.created < $3 AND s.due < $4 AND s.due >= $5 AND (s.at, s.event) > ($5, $6 COLLATE "C") ORDER BY s.due, s.event LIMIT $7`),
		windows: in("SELECT start, size, cap, used FROM sluice.slot_window WHERE plan = " + planID +
			" AND start >= $3 AND start < $4 AND used > 0 ORDER BY start LIMIT $5"),

		claim: in(`WITH due AS MATERIALIZED (
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
			SELECT ` + slotColumns + " FROM claimed s JOIN sluice.slot_plan p ON p.id = s.plan ORDER BY s.at"),
		finish: in(`UPDATE sluice.slot SET state = $4, due = coalesce($5, ` + slotEnd("$7") + `), attempts = attempts - $6
			WHERE namespace = $1 AND event = $2 AND fence = $3 AND state = 1 RETURNING plan, at, attempts, coalesce(worker, '')`),
		renew: in(`UPDATE sluice.slot s SET due = greatest(s.due, $4) FROM unnest($2::text[], $3::bigint[]) c (event, fence)
			WHERE s.namespace = $1 AND s.event = c.event AND s.fence = c.fence AND s.state = 1 RETURNING s.event`),
		nextDue: in("SELECT min(due) FROM sluice.slot WHERE plan = " + planID + " AND state < 2 AND due < $3"),

		cancel:   in("UPDATE sluice.slot SET state = $3, due = " + slotEnd("$4") + " WHERE namespace = $1 AND event = $2"),
		giveBack: in("UPDATE sluice.slot_window SET used = used - 1, room = used - 1 < cap WHERE plan = $1 AND start = $2"),
		insertAudit: in(`INSERT INTO sluice.slot_audit
			(time, namespace, plan, event, action, attempt, fence, worker, scheduled, granted, started, finished, detail)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`),
		audit: in(`SELECT a.id, a.time, p.name, a.event, a.action, a.attempt, a.fence, a.worker,
			a.scheduled, a.granted, a.started, a.finished, a.detail
			FROM sluice.slot_audit a JOIN sluice.slot_plan p ON p.id = a.plan WHERE `),

		sweep: newSweepStatements(in),
	}
}
