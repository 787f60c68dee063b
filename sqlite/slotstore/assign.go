package slotstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/internal/sqlslots"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// Prepare creates the windows of stretches of time.
func (s *Store) Prepare(ctx context.Context, stretches []schedule.Stretch) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := checkVersion(ctx, tx, stretches[0].Plan, stretches[0].Version); err != nil {
			return err
		}
		// Those that are prepared already stay as they are; the others may
		// have been there under another version of the plan.
		insert, err := tx.PrepareContext(ctx, `INSERT INTO slot_window (plan, start, size, cap, room, open)
			SELECT ?1, ?2, ?3, ?4, 1, ?5
			WHERE NOT EXISTS (SELECT 1 FROM slot_run WHERE plan = ?1 AND start <= ?2 AND stop > ?2)
			ON CONFLICT (plan, start) DO UPDATE SET cap = excluded.cap, room = used < excluded.cap, open = excluded.open`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range stretches {
			if err := prepareSlots(ctx, tx, insert, &stretches[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func prepareSlots(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, st *schedule.Stretch) error {
	for i := range st.Windows {
		w := &st.Windows[i]
		open, err := encodeOpen(w.Open)
		if err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, st.Plan, w.Start, w.Size, w.Max, open); err != nil {
			return err
		}
	}
	from, to := st.From, st.To
	if err := tx.QueryRowContext(ctx, `SELECT min(?1, coalesce(min(start), ?1)), max(?2, coalesce(max(stop), ?2))
		FROM slot_run WHERE plan = ?3 AND start <= ?2 AND stop >= ?1`, from, to, st.Plan).Scan(&from, &to); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM slot_run WHERE plan = ? AND start <= ? AND stop >= ?", st.Plan, st.To, st.From); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO slot_run (plan, start, stop) VALUES (?, ?, ?)", st.Plan, from, to)
	return err
}

func encodeOpen(open []int64) (any, error) {
	if open == nil {
		return nil, nil
	}
	b, err := json.Marshal(open)
	return string(b), err
}

// checkVersion says that a plan is stale if it has changed, or is gone.
func checkVersion(ctx context.Context, tx *sql.Tx, plan int64, version int) error {
	var active int
	err := tx.QueryRowContext(ctx, "SELECT version FROM slot_plan WHERE id = ?", plan).Scan(&active)
	if errors.Is(err, sql.ErrNoRows) || err == nil && active != version {
		return schedule.ErrStale
	}
	return err
}

// Assign finds slots for events of one plan.
func (s *Store) Assign(ctx context.Context, searches []schedule.Search) (found []schedule.Found, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		found = make([]schedule.Found, len(searches))
		first := &searches[0]
		if err := checkVersion(ctx, tx, first.Plan, first.Version); err != nil {
			return err
		}
		b, err := newBatch(ctx, tx, first.Plan)
		if err != nil {
			return err
		}
		defer b.close()
		for i := range searches {
			if found[i], err = b.assign(ctx, &searches[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// batch assigns slots one after the other in a transaction, in which
// nobody else can write.
type batch struct {
	tx     *sql.Tx
	plan   int64
	stop   int64 // of the run that was looked at last
	start  int64
	bare   map[[2]int64]schedule.Found // searches that found nothing, by From and Until
	find   *sql.Stmt
	insert *sql.Stmt
	count  *sql.Stmt
}

func newBatch(ctx context.Context, tx *sql.Tx, plan int64) (*batch, error) {
	b := &batch{tx: tx, plan: plan, bare: map[[2]int64]schedule.Found{}}
	for _, p := range []struct {
		statement **sql.Stmt
		sql       string
	}{
		{&b.find, `SELECT start, size, open FROM slot_window INDEXED BY slot_window_room
			WHERE plan = ? AND room AND start >= ? AND start < ? ORDER BY start LIMIT 1`},
		{&b.insert, `INSERT INTO slot (namespace, event, plan, version, win, at, requested, created, due, payload)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&b.count, "UPDATE slot_window SET used = used + 1, room = used + 1 < cap WHERE plan = ? AND start = ?"},
	} {
		var err error
		if *p.statement, err = tx.PrepareContext(ctx, p.sql); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b *batch) close() {
	for _, s := range []*sql.Stmt{b.find, b.insert, b.count} {
		if s != nil {
			s.Close() //nolint:errcheck // it ends with the transaction
		}
	}
}

func (b *batch) assign(ctx context.Context, s *schedule.Search) (schedule.Found, error) {
	if b.stop <= s.From || b.start > s.From {
		err := b.tx.QueryRowContext(ctx, "SELECT start, stop FROM slot_run WHERE plan = ? AND start <= ? ORDER BY start DESC LIMIT 1", b.plan, s.From).
			Scan(&b.start, &b.stop)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return schedule.Found{}, err
		}
	}
	until := min(s.Until, b.stop)
	w := schedule.Window{}
	var open sql.NullString
	err := sql.ErrNoRows
	if s.From < until {
		err = b.find.QueryRowContext(ctx, b.plan, s.From, until).Scan(&w.Start, &w.Size, &open)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return b.nothing(ctx, s)
	}
	if err != nil {
		return schedule.Found{}, err
	}
	if open.Valid {
		if err := json.Unmarshal([]byte(open.String), &w.Open); err != nil {
			return schedule.Found{}, err
		}
	}
	at := w.Moment(s.Earliest, s.Jitter)
	_, err = b.insert.ExecContext(ctx, s.Namespace, s.Event, b.plan, s.Version, w.Start, at, s.Requested, s.Now, at, sqlslots.Payload(s.Payload))
	if sqlite.IsUnique(err) {
		return b.existing(ctx, s)
	}
	if err != nil {
		return schedule.Found{}, err
	}
	if _, err := b.count.ExecContext(ctx, b.plan, w.Start); err != nil {
		return schedule.Found{}, err
	}
	return schedule.Found{Status: schedule.Assigned, First: w.Start, Slot: sqlslots.New(s, w.Start, at)}, nil
}

// nothing is the answer to a search for which no prepared window has room.
func (b *batch) nothing(ctx context.Context, s *schedule.Search) (schedule.Found, error) {
	if found, err := b.existing(ctx, s); err != nil || found.Status != schedule.Nothing {
		return found, err
	}
	if b.stop <= s.From || b.start > s.From {
		return schedule.Found{Status: schedule.Unprepared, At: s.From}, nil
	}
	if b.stop < s.Until {
		return schedule.Found{Status: schedule.Unprepared, At: b.stop, First: b.stop}, nil
	}
	found, ok := b.bare[[2]int64{s.From, s.Until}]
	if ok {
		return found, nil
	}
	err := b.tx.QueryRowContext(ctx, "SELECT count(*) FROM slot_window WHERE plan = ? AND start >= ? AND start < ? AND cap > 0",
		b.plan, s.From, s.Until).Scan(&found.Depth)
	b.bare[[2]int64{s.From, s.Until}] = found
	return found, err
}

// existing is the slot that the event has, or Nothing.
func (b *batch) existing(ctx context.Context, s *schedule.Search) (schedule.Found, error) {
	slot, err := sqlslots.Scan(b.tx.QueryRowContext(ctx, sqldb.SQLite(sqlslots.OfEvent), s.Namespace, s.Event))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return schedule.Found{}, nil
	case err != nil:
		return schedule.Found{}, err
	}
	return sqlslots.Existing(slot, s), nil
}
