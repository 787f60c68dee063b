package slotstore_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/scheduletest"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// TestSlots runs the conformance suite; each node opens the file for itself.
func TestSlots(t *testing.T) {
	scheduletest.Run(t, func(t *testing.T) scheduletest.Database {
		path := filepath.Join(t.TempDir(), "slots.db")
		return scheduletest.Database{Open: func() schedule.Store {
			db, err := sqlite.Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			slots := slotstore.New(db)
			t.Cleanup(func() {
				if err := slots.Close(); err != nil {
					t.Error(err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return slots
		}}
	})
}
