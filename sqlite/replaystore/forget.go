package replaystore

import (
	"context"
	"database/sql"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/sqlite"
)

// Ids begin with what tells whose they are, so the records lie side by side in
// the table's key. The names decide.
const (
	ownedBy = "(tenant = ? OR (tenant >= ? AND tenant < ?))"

	forgetRecords = `DELETE FROM replay WHERE id IN
		(SELECT id FROM replay WHERE id BETWEEN ? AND ? AND ` + ownedBy + ` ORDER BY id LIMIT ?)`
	forgetFigures = "DELETE FROM replay_figure WHERE everyone = 0 AND " + ownedBy
)

// ForgetAll deletes records of a tenant or a namespace.
func (r *Store) ForgetAll(ctx context.Context, whose idempotency.Whose, most int) (n int, err error) {
	first, last := whose.IDs()
	// 0 comes after the slash.
	owned := []any{[]byte(whose.Tenant), []byte(nil), []byte(nil)}
	if whose.Below {
		owned[1], owned[2] = []byte(whose.Tenant+"/"), []byte(whose.Tenant+"0")
	}
	err = r.db.Write(ctx, func(tx *sql.Tx) error {
		args := append(append([]any{first[:], last[:]}, owned...), most)
		if n, err = sqlite.Exec(ctx, tx, forgetRecords, args...); err != nil || n == most {
			return err
		}
		_, err = sqlite.Exec(ctx, tx, forgetFigures, owned...)
		return err
	})
	if err == nil && n < most {
		err = r.db.Truncate(ctx) // so that nothing of them is left in the files
	}
	if err != nil {
		return 0, fault(err)
	}
	return n, nil
}
