// Package slots is the suite of schedulers that assign work to windows on
// PostgreSQL: Sluice's slots beside the sequence they replace.
package slots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/schedule"

	"github.com/sluice-go/sluice/bench/report"
	"github.com/sluice-go/sluice/postgres/slotstore"
)

// Options are how much is measured.
type Options struct {
	Rounds  int
	Slot    time.Duration // how long each side assigns in a round
	Callers int
	Batch   int
	There   int // events in the middle of which it is measured
	Events  int // of the long run
	Log     io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 5, Slot: 2 * time.Second, Callers: 16, Batch: 1000, There: 5000, Events: 1_000_000, Log: log}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Slot: 50 * time.Millisecond, Callers: 4, Batch: 100, There: 200, Events: 2000, Log: log}
}

// perWindow is the document's default, as is the window of four seconds.
const perWindow = 100

// Run measures everything on a server of its own.
func Run(o Options) (s *report.Suite, err error) {
	server, err := postgrestest.New("fsync=on", "synchronous_commit=on")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	b, shut, err := open(server, o)
	if err != nil {
		return nil, err
	}
	defer shut()
	s = &report.Suite{
		Name:  "slots",
		Title: "Slots on PostgreSQL",
		Intro: fmt.Sprintf(`One server beside the callers, with fsync and synchronous_commit on. %d callers
in one process assign events to windows of 4 s with room for %d each. The other
side is the sequence that Sluice's slots replace: for each event a look whether
it is there, then BEGIN, INSERT of the window's counter, SELECT FOR UPDATE
NOWAIT, UPDATE, INSERT and COMMIT, window by window until one has room.

The claims are about the middle of a file of work: all events are aimed at one
instant, and some are there already. Beside it are the first ones of such a
file, and events that each have their own time in an hour, so that the first
window they look at has room; then one by one each side mostly waits for the
disk, once for each event. Each round has times of its own.`, o.Callers, perWindow),
	}
	t := report.Table{Title: "Events per second", Header: []string{"aimed at", "Sluice, batches of " + fmt.Sprint(o.Batch), "Sluice, one by one", "the sequence", "ratios"}}
	for _, aim := range []aim{
		{name: fmt.Sprintf("one instant, %s there", report.Count(float64(o.There))), there: o.There},
		{name: "one instant, the first ones"},
		{name: "times over an hour", spread: true},
	} {
		var rates [3][]float64
		for round := range o.Rounds {
			for i, side := range b.sides() {
				fmt.Fprintf(o.Log, "slots: %s, round %d: %s\n", aim.name, round+1, side.name)
				rate, err := side.measure(o, b.aims(aim.spread), aim.there)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", side.name, err)
				}
				rates[i] = append(rates[i], rate)
			}
		}
		batch, single, theirs := median(rates[0]), median(rates[1]), median(rates[2])
		t.Add(aim.name, report.Count(batch), report.Count(single), report.Count(theirs), fmt.Sprintf("%.3g and %.3g", batch/theirs, single/theirs))
		if aim.there > 0 {
			s.Claims = append(s.Claims,
				report.AtLeast("batches over the sequence", 50, batch/theirs),
				report.AtLeast("one by one over the sequence", 3, single/theirs))
		}
	}
	s.Tables = append(s.Tables, t)
	long, err := b.long(o)
	if err != nil {
		return nil, err
	}
	s.Tables = append(s.Tables, long.table())
	s.Claims = append(s.Claims, long.claims()...)
	return s, nil
}

// aim is what events are aimed at, and how many are there already.
type aim struct {
	name   string
	there  int
	spread bool
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// both are the two sides.
type both struct {
	scheduler *schedule.Scheduler
	document  *document
	aimed     int
}

func open(server *postgrestest.Server, o Options) (b *both, shut func(), err error) {
	ctx := context.Background()
	ours, err := server.NewDatabase()
	if err != nil {
		return nil, nil, err
	}
	theirs, err := server.NewDatabase()
	if err != nil {
		return nil, nil, err
	}
	doc, err := openDocument(ctx, theirs, o.Callers, perWindow)
	if err != nil {
		return nil, nil, err
	}
	store, err := slotstore.Open(ctx, postgres.Config{Address: ours, MaxConns: max(o.Callers, 2), Timeout: 20 * time.Second})
	if err != nil {
		doc.pool.Close()
		return nil, nil, err
	}
	shut = func() {
		store.Close() //nolint:errcheck // its server ends with it
		doc.pool.Close()
	}
	scheduler, err := schedule.New(schedule.Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = scheduler.SetPlan(ctx, schedule.Plan{MaxPerWindow: perWindow, Headroom: 100_000})
	}
	if err != nil {
		shut()
		return nil, nil, err
	}
	return &both{scheduler: scheduler, document: doc}, shut, nil
}
