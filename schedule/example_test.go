package schedule_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// open is a scheduler on an embedded database, for the examples.
func open() (s *schedule.Scheduler, shut func()) {
	dir, err := os.MkdirTemp("", "slots-")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sqlite.Open(context.Background(), filepath.Join(dir, "slots.db"))
	if err != nil {
		log.Fatal(err)
	}
	slots := slotstore.New(db)
	s, err = schedule.New(schedule.Config{Store: slots, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return s, func() {
		slots.Close()     //nolint:errcheck // it answers nil
		db.Close()        //nolint:errcheck // the file goes away
		os.RemoveAll(dir) //nolint:errcheck // it is in the temporary folder
	}
}

func ExampleScheduler_Assign() {
	s, shut := open()
	defer shut()
	ctx := context.Background()
	if _, err := s.SetPlan(ctx, schedule.Plan{Name: "payments", MaxPerWindow: 2, WindowSize: time.Minute}); err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, event := range []string{"payment-1", "payment-2", "payment-3", "payment-1"} {
		slot, err := s.Assign(ctx, schedule.Request{Event: event, Plan: "payments", At: noon})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(slot.Event, slot.Window.Format("15:04"), slot.Existing)
	}
	// Output:
	// payment-1 12:00 false
	// payment-2 12:00 false
	// payment-3 12:01 false
	// payment-1 12:00 true
}

func ExampleDispatcher() {
	s, shut := open()
	defer shut()
	ctx, stop := context.WithCancel(context.Background())
	if _, err := s.SetPlan(ctx, schedule.Plan{WindowSize: 10 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Assign(ctx, schedule.Request{Event: "payment-1", Payload: []byte(`{"amount": 12}`)}); err != nil {
		log.Fatal(err)
	}
	// Dispatchers in several processes need a store that they share.
	buckets, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := s.NewDispatcher(schedule.DispatcherConfig{
		Limiter: sluice.New(buckets),
		Limit:   sluice.MustParse("50/s burst 1"),
		Work: func(_ context.Context, job *schedule.Job) error {
			fmt.Printf("%s, attempt %d: %s\n", job.Event, job.Attempts, job.Payload)
			stop()
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	slot, err := s.Slot(context.Background(), "payment-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(slot.State)
	// Output:
	// payment-1, attempt 1: {"amount": 12}
	// done
}
