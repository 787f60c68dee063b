package sqlslots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/schedule"
)

// Plans lists plans.
func (s *Store) Plans(ctx context.Context, q schedule.PlanQuery) (all []schedule.ActivePlan, err error) {
	err = s.DB.View(ctx, func(tx sqldb.Tx) error {
		all, err = plans(tx, &q)
		return err
	})
	return all, err
}

// Namespaces lists the namespaces that have plans.
func (s *Store) Namespaces(ctx context.Context, after string, max int) (all []string, err error) {
	err = s.DB.View(ctx, func(tx sqldb.Tx) error {
		all, err = sqldb.All(tx, func(row sqldb.Row) (name string, err error) {
			err = row.Scan(&name)
			return name, err
		}, "SELECT DISTINCT namespace FROM sluice.slot_plan WHERE namespace > $1 ORDER BY namespace LIMIT $2", after, max)
		return err
	})
	return all, err
}

func plans(tx sqldb.Tx, q *schedule.PlanQuery) ([]schedule.ActivePlan, error) {
	which, name := " AND v.version = p.version WHERE p.namespace = $1 AND p.name > $2 ORDER BY p.name", q.After
	switch {
	case q.Versions:
		which, name = " WHERE p.namespace = $1 AND p.name = $2 ORDER BY v.version DESC", q.Name
	case q.Name != "":
		which, name = " AND v.version = p.version WHERE p.namespace = $1 AND p.name = $2", q.Name
	}
	return sqldb.All(tx, scanPlan, `SELECT p.name, v.version, v.max_per_window, v.window_size, v.headroom, v.calendar, v.target, v.created, v.starts,
		p.paused, p.dispatched, p.version = v.version, p.id, p.eras
		FROM sluice.slot_plan p JOIN sluice.slot_version v ON v.plan = p.id`+which+" LIMIT $3", q.Namespace, name, q.Max)
}

func scanPlan(row sqldb.Row) (a schedule.ActivePlan, err error) {
	var (
		p                     = &a.Plan
		size, created, starts int64
		calendar, target      *string
		eras                  string
	)
	if err := row.Scan(&p.Name, &p.Version, &p.MaxPerWindow, &size, &p.Headroom, &calendar, &target, &created, &starts, &p.Paused, &p.Dispatched, &p.Active,
		&a.ID, &eras); err != nil {
		return a, err
	}
	p.WindowSize = time.Duration(size) * time.Microsecond
	p.Created = Time(created)
	if starts > 0 {
		p.Starts = Time(starts)
	}
	return a, errors.Join(json.Unmarshal([]byte(eras), &a.Eras), parse(calendar, &p.Calendar), parse(target, &p.Target))
}

// active is the active version of a plan, with number 0 if there is no plan.
func active(tx sqldb.Tx, namespace, name string) (a schedule.ActivePlan, err error) {
	found, err := plans(tx, &schedule.PlanQuery{Namespace: namespace, Name: name, Max: 1})
	if len(found) > 0 {
		a = found[0]
	}
	return a, err
}

// ChangePlan changes a plan.
func (s *Store) ChangePlan(ctx context.Context, c schedule.PlanChange) (saved, before schedule.Plan, err error) {
	err = s.DB.Update(ctx, func(tx sqldb.Tx) error {
		// One change of a plan at a time, also of one that is not there yet.
		if err := tx.Lock("slot_plan "+c.Namespace+" "+c.Plan.Name, 0); err != nil {
			return err
		}
		now, err := active(tx, c.Namespace, c.Plan.Name)
		if err != nil {
			return err
		}
		before = now.Plan
		e := schedule.Entry{Time: c.Now}
		if c.Pause {
			err = pause(tx, &c, now.ID, &e)
		} else {
			err = s.save(tx, &c, &now)
		}
		if err != nil {
			return err
		}
		after, err := active(tx, c.Namespace, c.Plan.Name)
		if err != nil {
			return err
		}
		saved = after.Plan
		if !c.Pause {
			e.Action = schedule.Changed
			e.Detail = fmt.Sprintf("version %d: maxPerWindow %d->%d, windowSize %s->%s", saved.Version, before.MaxPerWindow, saved.MaxPerWindow, before.WindowSize, saved.WindowSize)
		}
		return exec(tx, audit(c.Namespace, after.ID, &e))
	})
	return saved, before, err
}

func pause(tx sqldb.Tx, c *schedule.PlanChange, id int64, e *schedule.Entry) error {
	if id == 0 {
		return schedule.NoPlan(c.Plan.Name)
	}
	e.Action = schedule.Resuming
	if c.Plan.Paused {
		e.Action = schedule.Pausing
	}
	return exec(tx, sqldb.Do("UPDATE sluice.slot_plan SET paused = $2 WHERE id = $1", id, c.Plan.Paused))
}

// usedWindows are the windows of a plan that have events: the first one, and
// those that end after a time.
func usedWindows(tx sqldb.Tx, plan int64, after time.Time) ([]schedule.Window, error) {
	return sqldb.All(tx, func(row sqldb.Row) (w schedule.Window, err error) {
		err = row.Scan(&w.Start, &w.Size)
		return w, err
	}, `SELECT start, size FROM sluice.slot_window WHERE plan = $1 AND used > 0
		AND (start + size > $2 OR start = (SELECT min(start) FROM sluice.slot_window WHERE plan = $1 AND used > 0)) ORDER BY start`,
		plan, after.UnixMicro())
}

// save writes the new version, when nobody is assigning by the old one.
func (s *Store) save(tx sqldb.Tx, c *schedule.PlanChange, before *schedule.ActivePlan) error {
	p, id, size := &c.Plan, before.ID, c.Plan.WindowSize.Microseconds()
	if p.Version != 0 && p.Version != before.Plan.Version {
		return fmt.Errorf("plan %s has version %d, not %d: %w", p.Name, before.Plan.Version, p.Version, schedule.ErrConflict)
	}
	eras := []schedule.Era{{Size: size}}
	if id != 0 {
		if err := tx.Lock("slot_plan", id); err != nil {
			return err
		}
		if eras = before.Eras; eras[len(eras)-1].Size != size {
			used, err := usedWindows(tx, id, c.Now.Add(-p.WindowSize))
			if err != nil {
				return err
			}
			eras = schedule.NextEras(eras, used, c.Now.UnixMicro(), size)
		}
	}
	text, err := json.Marshal(eras)
	if err != nil {
		return err
	}
	calendar, err := orNothing(p.Calendar)
	if err != nil {
		return err
	}
	target, err := orNothing(p.Target)
	if err != nil {
		return err
	}
	starts := eras[len(eras)-1].Starts
	for _, e := range slices.Backward(eras) {
		if e.Size == size && e.Starts+size > c.Now.UnixMicro() {
			starts = e.Starts // the first that is not over
		}
	}
	version := before.Plan.Version + 1
	if _, err := sqldb.One(tx, []any{&id}, `INSERT INTO sluice.slot_plan (namespace, name, version, eras) VALUES ($1, $2, $3, $4)
		ON CONFLICT (namespace, name) DO UPDATE SET version = excluded.version, eras = excluded.eras RETURNING id`,
		c.Namespace, p.Name, version, string(text)); err != nil {
		return err
	}
	now, lately := c.Now.UnixMicro(), c.Now.Add(-schedule.MaxWindowSize).UnixMicro() // what began before is over
	return exec(tx,
		sqldb.Do(`INSERT INTO sluice.slot_version (plan, version, max_per_window, window_size, headroom, calendar, target, created, starts)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			id, version, p.MaxPerWindow, size, p.Headroom, calendar, target, now, starts),
		// What is prepared is of the version before.
		sqldb.Do("DELETE FROM sluice.slot_run WHERE plan = $1", id),
		sqldb.Do("DELETE FROM sluice.slot_window WHERE plan = $1 AND start > $2 AND used = 0", id, lately),
		sqldb.Do("UPDATE sluice.slot_window SET room = false, cap = 0 WHERE plan = $1 AND start > $2 AND start + size > $3", id, lately, now),
		s.Notify,
	)
}

// parse reads what orNothing wrote.
func parse(text *string, to any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal([]byte(*text), to)
}

// orNothing is v in JSON, or nil.
func orNothing[T any](v *T) (*string, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	text := string(b)
	return &text, err
}
