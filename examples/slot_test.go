package examples_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// A slot: future work gets a minute that still has room.
func Example_slot() {
	dir, err := os.MkdirTemp("", "slots-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "slots.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	slots, err := schedule.New(schedule.Config{Store: slotstore.New(db)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := slots.SetPlan(ctx, schedule.Plan{Name: "payments", MaxPerWindow: 1, WindowSize: time.Minute}); err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, payment := range []string{"payment-1", "payment-2"} {
		slot, err := slots.Assign(ctx, schedule.Request{Event: payment, Plan: "payments", At: noon})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(slot.Event, slot.Window.Format("15:04"))
	}
	// Output:
	// payment-1 12:00
	// payment-2 12:01
}
