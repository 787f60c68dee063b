package replaystore_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/idempotency/idempotencytest"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/replaystore"
)

func TestReplaysConformance(t *testing.T) {
	idempotencytest.Config{}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		db, err := sqlite.Open(context.Background(), filepath.Join(tb.TempDir(), "sluice.db"))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := db.Close(); err != nil {
				tb.Error(err)
			}
		})
		return replaystore.New(db, now)
	})
}
