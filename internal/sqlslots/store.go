// Package sqlslots keeps slots in a database that speaks SQL: what PostgreSQL
// and SQLite do alike. How they search windows for room, and how they tell
// others of a change, they do each for themselves.
package sqlslots

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/schedule"
)

// Store is the common part of a [schedule.Store].
type Store struct {
	DB sqldb.DB

	// Notify tells everyone who watches of a change.
	Notify sqldb.Statement

	// Steady makes a transaction that removes rows find them by an index,
	// whatever the planner knows of the tables. It may have no SQL.
	Steady sqldb.Statement
}

// Flush tells everyone who watches to forget cached plans.
func (s *Store) Flush(ctx context.Context) error {
	return s.DB.Update(ctx, func(tx sqldb.Tx) error { return exec(tx, s.Notify) })
}

func exec(tx sqldb.Tx, statements ...sqldb.Statement) error {
	_, err := tx.Exec(statements...)
	return err
}

// planID is the number of a plan, by which everything else goes.
func planID(tx sqldb.Tx, namespace, name string) (id int64, err error) {
	found, err := sqldb.One(tx, []any{&id}, "SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2", namespace, name)
	if err == nil && !found {
		err = schedule.NoPlan(name)
	}
	return id, err
}

// audit is what adds an entry to the audit log.
func audit(namespace string, plan int64, e *schedule.Entry) sqldb.Statement {
	return sqldb.Do(`INSERT INTO sluice.slot_audit
		(time, namespace, plan, event, action, attempt, fence, worker, scheduled, granted, started, finished, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		e.Time.UnixMicro(), namespace, plan, e.Event, string(e.Action), e.Attempt, e.Fence, e.Worker,
		orNull(e.Scheduled), orNull(e.Granted), orNull(e.Started), orNull(e.Finished), e.Detail)
}

// Audit returns entries of the audit log.
func (s *Store) Audit(ctx context.Context, namespace string, q schedule.AuditQuery) (all []schedule.Entry, err error) {
	if q.Before == 0 {
		q.Before = never
	}
	where, subject := "a.namespace = $1 AND a.event = $2", q.Event
	if q.Event == "" {
		where, subject = "a.plan = (SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2)", q.Plan
	}
	err = s.DB.View(ctx, func(tx sqldb.Tx) error {
		all, err = sqldb.All(tx, scanEntry, `SELECT a.id, a.time, p.name, a.event, a.action, a.attempt, a.fence, a.worker,
			a.scheduled, a.granted, a.started, a.finished, a.detail
			FROM sluice.slot_audit a JOIN sluice.slot_plan p ON p.id = a.plan
			WHERE `+where+" AND a.id < $3 ORDER BY a.id DESC LIMIT $4", namespace, subject, q.Before, q.Max)
		return err
	})
	return all, err
}

func scanEntry(row sqldb.Row) (e schedule.Entry, err error) {
	var at int64
	var scheduled, granted, started, finished *int64
	err = row.Scan(&e.ID, &at, &e.Plan, &e.Event, &e.Action, &e.Attempt, &e.Fence, &e.Worker, &scheduled, &granted, &started, &finished, &e.Detail)
	e.Time = Time(at)
	e.Scheduled, e.Granted, e.Started, e.Finished = timeOrNull(scheduled), timeOrNull(granted), timeOrNull(started), timeOrNull(finished)
	return e, err
}

// Time is a time as it is stored.
func Time(us int64) time.Time { return time.UnixMicro(us).UTC() }

func timeOrNull(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return Time(*us)
}

func orNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}
