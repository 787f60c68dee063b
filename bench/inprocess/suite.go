package inprocess

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds int
	Slot   time.Duration
	Draws  int // keys in each caller's sequence
	Some   int // keys of the scenario with some
	Many   int // keys of the scenario with many
	Most   int // keys of the largest measurement
	Watch  time.Duration
	Log    io.Writer // is told what is being measured
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{
		Rounds: 45, Slot: 50 * time.Millisecond, Draws: 1 << 21,
		Some: 10_000, Many: 1_000_000, Most: 10_000_000, Watch: 5 * time.Second, Log: log,
	}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{
		Rounds: 1, Slot: 2 * time.Millisecond, Draws: 1 << 10,
		Some: 100, Many: 1000, Most: 2000, Watch: 5 * time.Millisecond, Log: log,
	}
}

// Speed measures how fast takes are.
func Speed(o Options) (*report.Suite, error) {
	s := &report.Suite{
		Name:  "memory",
		Title: "In the process: speed",
		Intro: fmt.Sprintf(`Sluice's memory store, through Limiter.Decide with buffers used again, beside
libraries that keep their state in the process. %d callers at once on all
cores; keys have %d characters and are new strings at every take, as they are
when they come out of a request. Nearly everything is allowed but where it
says otherwise.`, runtime.GOMAXPROCS(0), keys.Length),
	}
	return s, measure(o, s, throughput, allocations)
}

// Capacity measures what many keys cost.
func Capacity(o Options) (*report.Suite, error) {
	s := &report.Suite{
		Name:  "capacity",
		Title: "In the process: many keys",
		Intro: "The same limiters, as keys get more and as they expire.",
	}
	return s, measure(o, s, sizes, scale, pauses)
}

func measure(o Options, s *report.Suite, parts ...func(Options, *report.Suite) error) error {
	for _, part := range parts {
		if err := part(o, s); err != nil {
			return err
		}
	}
	return nil
}

// load asks an instance once for each key.
func (in *instance) load(all keys.Sequence) error {
	take := in.caller()
	for i := range all.Len() {
		if _, err := take(all.At(i)); err != nil {
			return err
		}
	}
	return nil
}
