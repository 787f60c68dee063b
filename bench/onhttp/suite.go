// Package onhttp is the suite of what limits cost a server: the middleware on
// top of net/http, and POST /v1/take beside a handler that answers a constant.
// wrk asks, so the client's work is the same for all.
package onhttp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds      int
	Slot        time.Duration // wrk takes whole seconds
	Connections int
	Log         io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 25, Slot: time.Second, Connections: 64, Log: log}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Slot: time.Second, Connections: 4, Log: log}
}

// Run measures everything on servers of this process.
func Run(o Options) (s *report.Suite, err error) {
	fmt.Fprintln(o.Log, "http")
	folder, err := os.MkdirTemp("", "sluice-bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	all, err := open(folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
	}()
	compare := func(with, without int) pair { return pair{side{server: &all[with]}, side{server: &all[without]}} }
	pairs := []pair{compare(limited, bare), compare(silent, bare), compare(decorated, bare), compare(take, constant)}
	for round := range o.Rounds {
		for i := range pairs {
			p := &pairs[i]
			turns := []*side{&p.without, &p.with}
			if round%2 == 1 {
				turns[0], turns[1] = turns[1], turns[0]
			}
			for _, t := range turns {
				rate, err := o.wrk(t.server)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", t.server.name, err)
				}
				t.Rates = append(t.Rates, rate)
			}
		}
	}
	return suite(o, pairs), nil
}

// pair is a server and what it is compared with. They are asked one right after
// the other, because machines have slow and fast seconds.
type pair struct{ with, without side }

type side struct {
	server *contender
	contest.Standing
}

func suite(o Options, pairs []pair) *report.Suite {
	ratio := func(n int) float64 { return pairs[n].with.Ratio(&pairs[n].without.Standing) }
	s := &report.Suite{
		Name:  "http",
		Title: "Over HTTP",
		Intro: fmt.Sprintf(`wrk with %d connections and its usual two threads, beside the server on one
machine, so that they share its processors. Nothing is refused; buckets are in
memory. Each server is asked right before or after the one without, %d times,
for %s each.`, o.Connections, o.Rounds, o.Slot),
		Claims: []report.Claim{
			report.AtLeast("middleware: requests per second over those of the same server without it", 0.9, ratio(0)),
			report.AtLeast("POST /v1/take: requests per second over those of a constant answer", 0.6, ratio(3)),
		},
	}
	t := report.Table{Title: "Requests per second", Header: []string{"server", "requests", "without", "ratio", "half of the ratios are within"}}
	for i := range pairs {
		p := &pairs[i]
		low, high := p.with.Spread(&p.without.Standing)
		t.Add(p.with.server.name, report.Count(p.with.Rate()), report.Count(p.without.Rate()),
			fmt.Sprintf("%.2f", ratio(i)), fmt.Sprintf("%.2f to %.2f", low, high))
	}
	s.Tables = append(s.Tables, t)
	return s
}

var (
	perSecond = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	failures  = regexp.MustCompile(`(Non-2xx or 3xx responses|Socket errors): .*`)
)

// wrk asks a server for a while and answers its requests per second.
func (o *Options) wrk(c *contender) (float64, error) {
	args := []string{"-t2", "-c" + strconv.Itoa(o.Connections), "-d" + strconv.Itoa(max(1, int(o.Slot/time.Second))) + "s"}
	if c.script != "" {
		args = append(args, "-s", c.script)
	}
	out, err := exec.Command("wrk", append(args, c.url)...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	if wrong := failures.Find(out); wrong != nil {
		return 0, fmt.Errorf("wrk: %s", wrong)
	}
	m := perSecond.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("wrk says nothing about requests: %s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
