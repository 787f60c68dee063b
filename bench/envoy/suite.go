package envoy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds   int
	Callers  int
	Users    int
	Duration time.Duration // of each server in each round
	Log      io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 5, Callers: 64, Users: 1000, Duration: 3 * time.Second, Log: log}
}

// Quick runs everything for a moment.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Callers: 8, Users: 10, Duration: 200 * time.Millisecond, Log: log}
}

const (
	peerSide  = "envoyproxy/ratelimit"
	exactSide = "Sluice, exact"
	heldSide  = "Sluice, held"
	emptySide = "gRPC server that says OK"
)

var sides = []string{peerSide, exactSide, heldSide, emptySide}

// Run measures all sides in turn, several times, on one Redis. A round's
// figures are compared with each other only, as the machine may be busy with
// something else in the next; what is reported is the median of the rounds.
func Run(o Options) (suite *report.Suite, err error) {
	dir, err := os.MkdirTemp("", "sluice-envoy-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := BuildPeer(dir)
	if err != nil {
		return nil, err
	}
	exact, held := filepath.Join(dir, "exact"), filepath.Join(dir, "held")
	for root, file := range map[string]string{exact: loadFile, held: holdLine + loadFile} {
		if err := os.MkdirAll(filepath.Join(root, "config"), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(root, "config", "load.yaml"), []byte(file), 0o644); err != nil {
			return nil, err
		}
	}
	server, err := redisserver.Start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	pid, err := processID(server.Address)
	if err != nil {
		return nil, err
	}
	start := map[string]func() (*Server, error){
		peerSide:  func() (*Server, error) { return StartPeer(program, exact, server.Address) },
		exactSide: func() (*Server, error) { return StartOurs(exact, server.Address) },
		heldSide:  func() (*Server, error) { return StartOurs(held, server.Address) },
		emptySide: func() (*Server, error) { return StartOurs("", server.Address) },
	}
	figures := map[string][]Figures{}
	for round := range o.Rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			f, err := o.turn(pid, start[side])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side, err)
			}
			fmt.Fprintf(o.Log, "round %d: %-26s %8.0f/s  median %-10s p99 %-10s processor: server %s, Redis %s, callers %s\n",
				round+1, side, f.PerSecond, f.Median.Round(time.Microsecond), f.P99.Round(time.Microsecond),
				f.Server.Round(time.Microsecond), f.Redis.Round(time.Microsecond), f.Callers.Round(time.Microsecond))
			figures[side] = append(figures[side], f)
		}
	}
	return o.report(figures), nil
}

// turn measures one server, after a moment in which it warms up.
func (o *Options) turn(redis int, start func() (*Server, error)) (f Figures, err error) {
	s, err := start()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := measure(s.Address, s.cmd.Process.Pid, redis, o.Callers, o.Users, o.Duration/4); err != nil {
		return f, err
	}
	return measure(s.Address, s.cmd.Process.Pid, redis, o.Callers, o.Users, o.Duration)
}

func (o *Options) report(figures map[string][]Figures) *report.Suite {
	s := &report.Suite{
		Name:  "envoy",
		Title: "Envoy's rate limit service",
		Intro: fmt.Sprintf(`%d callers on %d connections ask each service in turn, each in a process of its own, about %d
users with a limit per hour that is never reached, on the same Redis and the same
machine as the callers. Each figure is the median of %d rounds of %s; ratios are
taken within a round.`, o.Callers, loadConnections, o.Users, o.Rounds, o.Duration),
	}
	s.Claims = []report.Claim{
		report.AtLeast("decisions per second, exact, against envoyproxy/ratelimit", 1.7, ratio(figures[exactSide], figures[peerSide], perSecond)),
		report.AtLeast("the same, held", 2.5, ratio(figures[heldSide], figures[peerSide], perSecond)),
		report.AtLeast("held against a gRPC server that says OK", 0.7, ratio(figures[heldSide], figures[emptySide], perSecond)),
		report.AtMost("p99, exact, against envoyproxy/ratelimit", 1, ratio(figures[exactSide], figures[peerSide], p99)),
		report.AtMost("the same, held", 1, ratio(figures[heldSide], figures[peerSide], p99)),
	}
	t := report.Table{Title: "Decisions", Header: []string{"", "per second", "median", "p99", "against envoyproxy/ratelimit"}}
	for _, side := range sides {
		fs := figures[side]
		t.Add(side, fmt.Sprintf("%.0f", median(fs, perSecond)),
			time.Duration(median(fs, half)).Round(10*time.Microsecond).String(),
			time.Duration(median(fs, p99)).Round(10*time.Microsecond).String(),
			fmt.Sprintf("%.2f", ratio(fs, figures[peerSide], perSecond)))
	}
	s.Tables = []report.Table{t}
	return s
}

func perSecond(f Figures) float64 { return f.PerSecond }
func half(f Figures) float64      { return float64(f.Median) }
func p99(f Figures) float64       { return float64(f.P99) }

func median(fs []Figures, of func(Figures) float64) float64 {
	all := make([]float64, len(fs))
	for i, f := range fs {
		all[i] = of(f)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// ratio is the median of the rounds' ratios.
func ratio(a, b []Figures, of func(Figures) float64) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = of(a[i]) / of(b[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}
