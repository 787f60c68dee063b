package slotstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// isAnswer reports whether err is one that the contract knows.
func isAnswer(err error) bool {
	for _, known := range []error{schedule.ErrNotFound, schedule.ErrConflict, schedule.ErrStale, schedule.ErrClaimLost, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

const planColumns = `p.name, v.version, v.max_per_window, v.window_size, v.headroom, v.calendar, v.created, v.starts,
	p.paused, p.version = v.version`

type scanner interface{ Scan(...any) error }

func scanPlan(row scanner, more ...any) (schedule.Plan, error) {
	var (
		p                     schedule.Plan
		size, created, starts int64
		calendar              sql.NullString
	)
	err := row.Scan(append([]any{&p.Name, &p.Version, &p.MaxPerWindow, &size, &p.Headroom, &calendar, &created, &starts, &p.Paused, &p.Active}, more...)...)
	if err != nil {
		return p, err
	}
	p.WindowSize = time.Duration(size) * time.Microsecond
	p.Created = time.UnixMicro(created).UTC()
	if starts > 0 {
		p.Starts = time.UnixMicro(starts).UTC()
	}
	if calendar.Valid {
		p.Calendar = &schedule.Calendar{}
		err = json.Unmarshal([]byte(calendar.String), p.Calendar)
	}
	return p, err
}

// Plan returns the active version of a plan.
func (s *Store) Plan(ctx context.Context, namespace, name string) (active *schedule.ActivePlan, err error) {
	err = s.db.Read(ctx, func(tx *sql.Tx) error {
		active, err = activePlan(ctx, tx, namespace, name)
		return err
	})
	return active, wrapped(err)
}

func activePlan(ctx context.Context, tx *sql.Tx, namespace, name string) (*schedule.ActivePlan, error) {
	a := &schedule.ActivePlan{}
	var eras string
	row := tx.QueryRowContext(ctx, "SELECT "+planColumns+`, p.id, p.eras,
		coalesce((SELECT start FROM slot_window w WHERE w.plan = p.id AND used > 0 ORDER BY start DESC LIMIT 1), 0)
		FROM slot_plan p JOIN slot_version v ON v.plan = p.id AND v.version = p.version
		WHERE p.namespace = ? AND p.name = ?`, namespace, name)
	var err error
	a.Plan, err = scanPlan(row, &a.ID, &eras, &a.Frontier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, schedule.NoPlan(name)
	}
	if err != nil {
		return nil, err
	}
	return a, json.Unmarshal([]byte(eras), &a.Eras)
}

// Plans returns the active versions of the first plans after a name.
func (s *Store) Plans(ctx context.Context, namespace, after string, max int) ([]schedule.Plan, error) {
	return s.plans(ctx, "SELECT "+planColumns+` FROM slot_plan p JOIN slot_version v ON v.plan = p.id AND v.version = p.version
		WHERE p.namespace = ? AND p.name > ? ORDER BY p.name LIMIT ?`, namespace, after, max)
}

// Versions returns the versions of a plan, the newest first.
func (s *Store) Versions(ctx context.Context, namespace, name string, max int) ([]schedule.Plan, error) {
	return s.plans(ctx, "SELECT "+planColumns+` FROM slot_plan p JOIN slot_version v ON v.plan = p.id
		WHERE p.namespace = ? AND p.name = ? ORDER BY v.version DESC LIMIT ?`, namespace, name, max)
}

func (s *Store) plans(ctx context.Context, query string, args ...any) ([]schedule.Plan, error) {
	rows, err := s.db.Reader().QueryContext(ctx, query, args...)
	var all []schedule.Plan
	err = sqlite.Each(rows, err, func(rows *sql.Rows) error {
		p, err := scanPlan(rows)
		all = append(all, p)
		return err
	})
	return all, wrapped(err)
}

// SavePlan makes p the active version.
func (s *Store) SavePlan(ctx context.Context, namespace string, p schedule.Plan, now time.Time) (saved, before schedule.Plan, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		size := p.WindowSize.Microseconds()
		active, err := activePlan(ctx, tx, namespace, p.Name)
		if errors.Is(err, schedule.ErrNotFound) {
			active = &schedule.ActivePlan{Eras: []schedule.Era{{Size: size}}}
		} else if err != nil {
			return err
		}
		before = active.Plan
		if p.Version != 0 && p.Version != before.Version {
			return fmt.Errorf("plan %s has version %d, not %d: %w", p.Name, before.Version, p.Version, schedule.ErrConflict)
		}
		if active.Eras[len(active.Eras)-1].Size != size {
			var scheduled int64
			if err := tx.QueryRowContext(ctx, `SELECT coalesce((SELECT start + size FROM slot_window
				WHERE plan = ? AND used > 0 ORDER BY start DESC LIMIT 1), 0)`, active.ID).Scan(&scheduled); err != nil {
				return err
			}
			active.Eras = schedule.NextEras(active.Eras, scheduled, size)
		}
		if err := savePlan(ctx, tx, namespace, p, active, now); err != nil {
			return err
		}
		after, err := activePlan(ctx, tx, namespace, p.Name)
		if err != nil {
			return err
		}
		saved = after.Plan
		return audit(ctx, tx, namespace, after.ID, &schedule.Entry{
			Time: now, Action: schedule.Changed,
			Detail: fmt.Sprintf("version %d: maxPerWindow %d->%d, windowSize %s->%s", saved.Version, before.MaxPerWindow, saved.MaxPerWindow, before.WindowSize, saved.WindowSize),
		})
	})
	return saved, before, wrapped(err)
}

func savePlan(ctx context.Context, tx *sql.Tx, namespace string, p schedule.Plan, active *schedule.ActivePlan, now time.Time) error {
	eras, err := json.Marshal(active.Eras)
	if err != nil {
		return err
	}
	var calendar any
	if p.Calendar != nil {
		b, err := json.Marshal(p.Calendar)
		if err != nil {
			return err
		}
		calendar = string(b)
	}
	version := active.Plan.Version + 1
	lately := now.Add(-schedule.MaxWindowSize).UnixMicro() // what began before is over
	id := active.ID
	if err := tx.QueryRowContext(ctx, `INSERT INTO slot_plan (namespace, name, version, eras) VALUES (?, ?, ?, ?)
		ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, eras = excluded.eras RETURNING id`,
		namespace, p.Name, version, string(eras)).Scan(&id); err != nil {
		return err
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO slot_version (plan, version, max_per_window, window_size, headroom, calendar, created, starts)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			[]any{id, version, p.MaxPerWindow, p.WindowSize.Microseconds(), p.Headroom, calendar, now.UnixMicro(), active.Eras[len(active.Eras)-1].Starts}},
		// What is prepared is of the version before.
		{"DELETE FROM slot_run WHERE plan = ?", []any{id}},
		{"DELETE FROM slot_window WHERE plan = ? AND start > ? AND used = 0", []any{id, lately}},
		{"UPDATE slot_window SET room = 0, cap = 0 WHERE plan = ? AND start > ? AND start + size > ?", []any{id, lately, now.UnixMicro()}},
		{"UPDATE slot_flush SET n = n + 1", nil},
	} {
		if _, err := tx.ExecContext(ctx, step.sql, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// PausePlan stops or resumes claiming.
func (s *Store) PausePlan(ctx context.Context, namespace, name string, paused bool, now time.Time) error {
	return wrapped(s.db.Write(ctx, func(tx *sql.Tx) error {
		var id int64
		err := tx.QueryRowContext(ctx, "UPDATE slot_plan SET paused = ? WHERE namespace = ? AND name = ? RETURNING id", paused, namespace, name).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return schedule.NoPlan(name)
		}
		if err != nil {
			return err
		}
		action := schedule.Resuming
		if paused {
			action = schedule.Pausing
		}
		return audit(ctx, tx, namespace, id, &schedule.Entry{Time: now, Action: action})
	}))
}
