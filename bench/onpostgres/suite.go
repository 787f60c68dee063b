// Package onpostgres is the suite of limiters that share their state through
// PostgreSQL: Sluice's store beside the sequence it replaces.
package onpostgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
	"github.com/sluice-go/sluice/postgres/limitstore"
)

// Options are how much is measured.
type Options struct {
	Rounds  int
	Slot    time.Duration
	Callers int
	Many    int // buckets of the scenario with many
	Log     io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 5, Slot: 2 * time.Second, Callers: 32, Many: 10_000, Log: log}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Slot: 20 * time.Millisecond, Callers: 4, Many: 20, Log: log}
}

// burst and every make a limit that never refuses: each take has to write.
const (
	burst = 10_000_000
	every = 6 * time.Minute
)

// Run measures everything on a server of its own.
func Run(o Options) (s *report.Suite, err error) {
	server, err := postgrestest.New("fsync=on", "synchronous_commit=on")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	s = &report.Suite{
		Name:  "postgres",
		Title: "On PostgreSQL",
		Intro: fmt.Sprintf(`One server beside the callers, with fsync and synchronous_commit on. %d callers
in one process ask for one token at a time; every take is allowed, so every
take has to be written. The other side is the sequence that Sluice's store
replaces: advisory lock, SELECT FOR UPDATE, UPDATE, COMMIT, unlock.`, o.Callers),
	}
	t := report.Table{Title: "Takes per second", Header: []string{"buckets", sluiceName, documentName, "ratio"}}
	for _, sc := range []struct {
		buckets int
		want    float64
	}{{1, 20}, {o.Many, 5}} {
		name := report.Count(float64(sc.buckets)) + " buckets"
		if sc.buckets == 1 {
			name = "1 hot bucket"
		}
		fmt.Fprintf(o.Log, "postgres: %s\n", name)
		standings, err := compare(o, server, sc.buckets)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		ours, theirs := &standings[0], &standings[1]
		ratio := ours.Ratio(theirs)
		t.Add(name, report.Count(ours.Rate()), report.Count(theirs.Rate()), fmt.Sprintf("%.3g", ratio))
		s.Claims = append(s.Claims, report.AtLeast(name+": throughput over the sequence's", sc.want, ratio))
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

const (
	sluiceName   = "Sluice"
	documentName = "lock, select, update, commit, unlock"
)

// compare lets both sides take turns in databases of their own.
func compare(o Options, server *postgrestest.Server, buckets int) ([]contest.Standing, error) {
	sides, shut, err := open(server, o.Callers)
	if err != nil {
		return nil, err
	}
	defer shut()
	for i := range sides {
		if err := sides[i].Load(keys.All(buckets), o.Callers); err != nil {
			return nil, fmt.Errorf("%s: %w", sides[i].Name, err)
		}
	}
	p := contest.Plan{Rounds: o.Rounds, Slot: o.Slot, Sequences: keys.Each(o.Callers, func(seed uint64) keys.Sequence {
		return keys.Uniform(buckets, 4096, seed)
	})}
	return p.Run(sides)
}

func open(server *postgrestest.Server, callers int) (sides []contest.Contender, shut func(), err error) {
	ctx := context.Background()
	ours, err := server.NewDatabase()
	if err != nil {
		return nil, nil, err
	}
	theirs, err := server.NewDatabase()
	if err != nil {
		return nil, nil, err
	}
	doc, err := openDocument(ctx, theirs, callers)
	if err != nil {
		return nil, nil, err
	}
	store, err := limitstore.Open(ctx, postgres.Config{Address: ours})
	if err != nil {
		doc.pool.Close()
		return nil, nil, err
	}
	shut = func() {
		store.Close() //nolint:errcheck // its server ends with it
		doc.pool.Close()
	}
	limit := sluice.Per(1, every).WithBurst(burst)
	return []contest.Contender{
		{Name: sluiceName, Caller: sluiceCaller(store, limit)},
		{Name: documentName, Caller: doc.caller},
	}, shut, nil
}

func sluiceCaller(store sluice.Store, limit sluice.Limit) func() contest.Take {
	limiter := sluice.New(store)
	ctx := context.Background()
	return func() contest.Take {
		t := &sluice.Take{Demands: []sluice.Demand{{Limit: limit}}}
		d := &sluice.Decision{}
		return func(key string) (bool, error) {
			t.Demands[0].Key.Entity = key
			err := limiter.Decide(ctx, t, d)
			return d.Allowed, err
		}
	}
}
