package slotstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

func scanSlotPlan(row pgx.Row, more ...any) (schedule.Plan, error) {
	var (
		p                     schedule.Plan
		size, created, starts int64
		calendar              *string
	)
	err := row.Scan(append([]any{&p.Name, &p.Version, &p.MaxPerWindow, &size, &p.Headroom, &calendar, &created, &starts, &p.Paused, &p.Active}, more...)...)
	if err != nil {
		return p, err
	}
	p.WindowSize = time.Duration(size) * time.Microsecond
	p.Created = fromMicros(created)
	if starts > 0 {
		p.Starts = fromMicros(starts)
	}
	if calendar != nil {
		p.Calendar = &schedule.Calendar{}
		err = json.Unmarshal([]byte(*calendar), p.Calendar)
	}
	return p, err
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (s *Store) active(ctx context.Context, q querier, namespace, name string) (*schedule.ActivePlan, error) {
	a := &schedule.ActivePlan{}
	var eras string
	var err error
	if a.Plan, err = scanSlotPlan(q.QueryRow(ctx, s.sql.plan, namespace, name), &a.ID, &eras, &a.Frontier); err != nil {
		return nil, noPlan(err, name)
	}
	return a, json.Unmarshal([]byte(eras), &a.Eras)
}

// Plan returns the active version of a plan.
func (s *Store) Plan(ctx context.Context, namespace, name string) (active *schedule.ActivePlan, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		active, err = s.active(ctx, conn, namespace, name)
		return err
	})
	return active, err
}

// Plans returns the active versions of the first plans after a name.
func (s *Store) Plans(ctx context.Context, namespace, after string, max int) ([]schedule.Plan, error) {
	return s.planList(ctx, s.sql.plans, namespace, after, max)
}

// Versions returns the versions of a plan, the newest first.
func (s *Store) Versions(ctx context.Context, namespace, name string, max int) ([]schedule.Plan, error) {
	return s.planList(ctx, s.sql.versions, namespace, name, max)
}

func (s *Store) planList(ctx context.Context, sql string, args ...any) (all []schedule.Plan, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (schedule.Plan, error) { return scanSlotPlan(row) })
		return err
	})
	return all, err
}

// SavePlan makes p the active version.
func (s *Store) SavePlan(ctx context.Context, namespace string, p schedule.Plan, now time.Time) (saved, before schedule.Plan, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// One change of a plan at a time, also of one that is not there yet.
		if _, err := tx.Exec(ctx, s.db.In("SELECT pg_advisory_xact_lock(hashtextextended('sluice.slot_plan ' || $1 || ' ' || $2, 0))"), namespace, p.Name); err != nil {
			return err
		}
		active, err := s.active(ctx, tx, namespace, p.Name)
		if errors.Is(err, schedule.ErrNotFound) {
			active = &schedule.ActivePlan{Eras: []schedule.Era{{Size: p.WindowSize.Microseconds()}}}
		} else if err != nil {
			return err
		}
		before = active.Plan
		if p.Version != 0 && p.Version != before.Version {
			return fmt.Errorf("plan %s has version %d, not %d: %w", p.Name, before.Version, p.Version, schedule.ErrConflict)
		}
		if err := s.replacePlan(ctx, tx, namespace, p, active, now); err != nil {
			return err
		}
		after, err := s.active(ctx, tx, namespace, p.Name)
		if err != nil {
			return err
		}
		saved = after.Plan
		return s.audit(ctx, tx, namespace, after.ID, &schedule.Entry{
			Time: now, Action: schedule.Changed,
			Detail: fmt.Sprintf("version %d: maxPerWindow %d->%d, windowSize %s->%s", saved.Version, before.MaxPerWindow, saved.MaxPerWindow, before.WindowSize, saved.WindowSize),
		})
	})
	return saved, before, err
}

// replacePlan writes the new version, when nobody is assigning by the old one.
func (s *Store) replacePlan(ctx context.Context, tx pgx.Tx, namespace string, p schedule.Plan, active *schedule.ActivePlan, now time.Time) error {
	id, size := active.ID, p.WindowSize.Microseconds()
	if id != 0 {
		if _, err := tx.Exec(ctx, s.db.In("SELECT pg_advisory_xact_lock(hashtextextended('sluice.slot_plan', $1))"), id); err != nil {
			return err
		}
		if active.Eras[len(active.Eras)-1].Size != size {
			var scheduled int64
			if err := tx.QueryRow(ctx, s.db.In(`SELECT coalesce((SELECT start + size FROM sluice.slot_window
				WHERE plan = $1 AND used > 0 ORDER BY start DESC LIMIT 1), 0)`), id).Scan(&scheduled); err != nil {
				return err
			}
			active.Eras = schedule.NextEras(active.Eras, scheduled, size)
		}
	}
	eras, err := json.Marshal(active.Eras)
	if err != nil {
		return err
	}
	var calendar *string
	if p.Calendar != nil {
		b, err := json.Marshal(p.Calendar)
		if err != nil {
			return err
		}
		text := string(b)
		calendar = &text
	}
	version := active.Plan.Version + 1
	if err := tx.QueryRow(ctx, s.db.In(`INSERT INTO sluice.slot_plan (namespace, name, version, eras) VALUES ($1, $2, $3, $4)
		ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, eras = excluded.eras RETURNING id`),
		namespace, p.Name, version, string(eras)).Scan(&id); err != nil {
		return err
	}
	lately := now.Add(-schedule.MaxWindowSize).UnixMicro() // what began before is over
	b := &pgx.Batch{}
	b.Queue(s.db.In(`INSERT INTO sluice.slot_version (plan, version, max_per_window, window_size, headroom, calendar, created, starts)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`),
		id, version, p.MaxPerWindow, size, p.Headroom, calendar, now.UnixMicro(), active.Eras[len(active.Eras)-1].Starts)
	// What is prepared is of the version before.
	b.Queue(s.db.In("DELETE FROM sluice.slot_run WHERE plan = $1"), id)
	b.Queue(s.db.In("DELETE FROM sluice.slot_window WHERE plan = $1 AND start > $2 AND used = 0"), id, lately)
	b.Queue(s.db.In("UPDATE sluice.slot_window SET room = false, cap = 0 WHERE plan = $1 AND start > $2 AND start + size > $3"), id, lately, now.UnixMicro())
	b.Queue("SELECT pg_notify($1, '')", s.channel())
	return tx.SendBatch(ctx, b).Close()
}

// PausePlan stops or resumes claiming.
func (s *Store) PausePlan(ctx context.Context, namespace, name string, paused bool, now time.Time) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, s.db.In("UPDATE sluice.slot_plan SET paused = $3 WHERE namespace = $1 AND name = $2 RETURNING id"), namespace, name, paused).Scan(&id)
		if err != nil {
			return noPlan(err, name)
		}
		action := schedule.Resuming
		if paused {
			action = schedule.Pausing
		}
		return s.audit(ctx, tx, namespace, id, &schedule.Entry{Time: now, Action: action})
	})
}

// audit adds an entry to the audit log.
func (s *Store) audit(ctx context.Context, tx pgx.Tx, namespace string, plan int64, e *schedule.Entry) error {
	_, err := tx.Exec(ctx, s.sql.insertAudit, e.Time.UnixMicro(), namespace, plan, e.Event, string(e.Action), e.Attempt, e.Fence, e.Worker,
		microsOrNull(e.Scheduled), microsOrNull(e.Granted), microsOrNull(e.Started), microsOrNull(e.Finished), e.Detail)
	return err
}
