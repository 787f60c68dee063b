// Command load compares Sluice's service for Envoy with envoyproxy/ratelimit.
//
//	go run ./envoy/load                   how fast each is
//	go run ./envoy/load -compare 10m      whether every answer is the same
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sluice-go/sluice/bench/envoy"
	"github.com/sluice-go/sluice/bench/report"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 && os.Args[1] == envoy.WorkerCommand {
		return envoy.Worker(os.Args[1:])
	}
	o := envoy.Full(os.Stderr)
	flag.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds")
	flag.IntVar(&o.Callers, "callers", o.Callers, "callers at once")
	flag.IntVar(&o.Users, "users", o.Users, "users they ask about")
	flag.DurationVar(&o.Duration, "duration", o.Duration, "of each server in each round")
	flag.StringVar(&o.Profiles, "profiles", "", "folder for CPU profiles of our servers")
	compare := flag.Duration("compare", 0, "compare answers for so long instead")
	page := flag.String("page", "", "the benchmarks page to update")
	flag.Parse()
	if *compare > 0 {
		return envoy.CompareFor(*compare, os.Stderr)
	}
	machine := report.Machine(time.Now())
	suite, err := envoy.Run(o)
	if err != nil {
		return err
	}
	suite.Intro += "\n\nMeasured on " + machine
	suite.Print(os.Stdout)
	if *page != "" {
		return report.Update(*page, suite.Name, suite.Markdown())
	}
	return nil
}
