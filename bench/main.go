// Command bench measures Sluice beside its peers and writes the table of
// ratios.
//
//	go run . [flags] [suite...]
//
// Suites: memory, capacity, redis, postgres, saturate, holding, slots, replays,
// http, envoy. All of them run if none is named.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sluice-go/sluice/bench/envoy"
	"github.com/sluice-go/sluice/bench/holding"
	"github.com/sluice-go/sluice/bench/inprocess"
	"github.com/sluice-go/sluice/bench/onhttp"
	"github.com/sluice-go/sluice/bench/onpostgres"
	"github.com/sluice-go/sluice/bench/onredis"
	"github.com/sluice-go/sluice/bench/replays"
	"github.com/sluice-go/sluice/bench/report"
	"github.com/sluice-go/sluice/bench/saturate"
	"github.com/sluice-go/sluice/bench/slots"
)

type suite struct {
	name        string
	full, quick func(log io.Writer) (*report.Suite, error)
}

// newSuite takes how much is measured in full and quickly, and what measures it.
func newSuite[Options any](name string, full, quick func(io.Writer) Options, run func(Options) (*report.Suite, error)) suite {
	with := func(options func(io.Writer) Options) func(io.Writer) (*report.Suite, error) {
		return func(log io.Writer) (*report.Suite, error) { return run(options(log)) }
	}
	return suite{name, with(full), with(quick)}
}

var suites = []suite{
	newSuite("memory", inprocess.Full, inprocess.Quick, inprocess.Speed),
	newSuite("capacity", inprocess.Full, inprocess.Quick, inprocess.Capacity),
	newSuite("redis", onredis.Full, onredis.Quick, onredis.Run),
	newSuite("postgres", onpostgres.Full, onpostgres.Quick, onpostgres.Run),
	newSuite("saturate", saturate.Full, saturate.Quick, saturate.Run),
	newSuite("holding", holding.Full, holding.Quick, holding.Run),
	newSuite("slots", slots.Full, slots.Quick, slots.Run),
	newSuite("replays", replays.Full, replays.Quick, replays.Run),
	newSuite("http", onhttp.Full, onhttp.Quick, onhttp.Run),
	newSuite("envoy", envoy.Full, envoy.Quick, envoy.Run),
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == saturate.WorkerCommand {
		exit(saturate.Worker(os.Args[1:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == holding.WorkerCommand {
		exit(holding.Worker(os.Args[1:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == envoy.WorkerCommand {
		exit(envoy.Worker(os.Args[1:]))
	}
	quick := flag.Bool("quick", false, "run everything for a moment, to see that it works; the figures mean nothing")
	page := flag.String("page", "", "the benchmarks page to update")
	flag.Parse()
	exit(run(*quick, *page, flag.Args()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(quick bool, page string, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == n }) {
			return fmt.Errorf("no suite is called %q", n)
		}
	}
	for _, s := range suites {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		measure := s.full
		if quick {
			measure = s.quick
		}
		machine := report.Machine(time.Now())
		r, err := measure(&stamped{start: time.Now(), w: os.Stderr})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Intro += "\n\nMeasured on " + machine
		r.Print(os.Stdout)
		if page != "" {
			if err := report.Update(page, r.Name, r.Markdown()); err != nil {
				return err
			}
		}
	}
	return nil
}

// stamped writes how long it has been running before each line.
type stamped struct {
	start time.Time
	w     io.Writer
}

func (s *stamped) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(s.w, "%6.1fs  %s", time.Since(s.start).Seconds(), line)
	return len(line), err
}
