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
	standings := make([]contest.Standing, len(all))
	for round := range o.Rounds {
		for i := range all {
			n := (i + round) % len(all) // each has every place in the order
			standings[n].Name = all[n].name
			rate, err := o.wrk(&all[n])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[n].name, err)
			}
			standings[n].Rates = append(standings[n].Rates, rate)
		}
	}
	return suite(o, standings), nil
}

func suite(o Options, st []contest.Standing) *report.Suite {
	bare, decorated, limited, silent, constant, take := &st[0], &st[1], &st[2], &st[3], &st[4], &st[5]
	s := &report.Suite{
		Name:  "http",
		Title: "Over HTTP",
		Intro: fmt.Sprintf(`wrk with %d connections and one thread, beside the server on one machine, so
that they share its processors. Nothing is refused; buckets are in memory.`, o.Connections),
		Claims: []report.Claim{
			report.AtLeast("middleware: requests per second over those of the same server without it", 0.9, limited.Ratio(bare)),
			report.AtLeast("POST /v1/take: requests per second over those of a constant answer", 0.6, take.Ratio(constant)),
		},
	}
	t := report.Table{Title: "Requests per second", Header: []string{"server", "requests", "times the one without"}}
	for _, r := range []struct{ this, without *contest.Standing }{{bare, bare}, {decorated, bare}, {limited, bare}, {silent, bare}, {constant, constant}, {take, constant}} {
		t.Add(r.this.Name, report.Count(r.this.Rate()), fmt.Sprintf("%.2f", r.this.Ratio(r.without)))
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
	args := []string{"-t1", "-c" + strconv.Itoa(o.Connections), "-d" + strconv.Itoa(max(1, int(o.Slot/time.Second))) + "s"}
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
