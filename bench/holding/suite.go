// Package holding is the suite of tokens held ahead of need: several real
// processes on one Redis, with package advance, without it, and beside
// redis_rate. It measures what holding gains, and checks that nothing passes
// beyond the bound and that nearly everything below it does.
package holding

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds    int
	Processes int
	Callers   int // in each process
	Duration  time.Duration
	KeysPart  int    // one in so many of each scenario's keys is used
	Draws     int    // keys in each caller's sequence
	Watch     int    // hottest buckets to record the admissions of, and as many others
	Profiles  string // a folder for CPU profiles of the workers, or ""
	Log       io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{
		Rounds: 3, Processes: 3, Callers: 64, Duration: 10 * time.Second,
		KeysPart: 1, Draws: 1 << 14, Watch: 50, Log: log,
	}
}

// Quick runs everything for a moment.
func Quick(log io.Writer) Options {
	return Options{
		Rounds: 1, Processes: 2, Callers: 8, Duration: 600 * time.Millisecond,
		KeysPart: 100, Draws: 1 << 10, Watch: 10, Log: log,
	}
}

func (o *Options) keys(s *scenario) int { return max(1, s.keys/o.KeysPart) }

// profile is where a worker of that side writes a CPU profile.
func (o *Options) profile(scenario, side string) string {
	if o.Profiles == "" {
		return ""
	}
	return filepath.Join(o.Profiles, scenario+"-"+strings.ReplaceAll(side, " ", "-"))
}

// latencyFor is how long latency is measured at most: a hold is renewed some
// time before its end, and without renewals there must be none.
const latencyFor = 5 * time.Second

// fleet is how many processes share the bucket that is asked for nearly all
// it has.
const fleet = 4

func (o *Options) settings() []setting {
	beside := []string{held, redisRate}
	against := []string{held, exact}
	alone := []string{held}
	short := min(o.Duration, latencyFor)
	return []setting{
		{&under, beside, o.Processes, o.Duration},
		{&many, beside, o.Processes, o.Duration},
		{&overload, beside, o.Processes, o.Duration},
		{&small, against, o.Processes, o.Duration},
		{&three, against, o.Processes, o.Duration},
		{&resting, alone, o.Processes, short},
		{&renewing, alone, o.Processes, short},
		{&drained, alone, o.Processes, short},
		{&near, alone, fleet, o.Duration},
	}
}

// Run measures everything on a server of its own.
func Run(o Options) (s *report.Suite, err error) {
	redis, err := redisserver.Start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	srv, err := connect(redis.Address)
	if err != nil {
		return nil, err
	}
	defer srv.client.Close()

	all := results{}
	for _, st := range o.settings() {
		if all[st.name], err = o.compare(srv, st); err != nil {
			return nil, err
		}
	}
	return &report.Suite{
		Name:  "holding",
		Title: "Holding tokens ahead of need",
		Intro: fmt.Sprintf(`%d processes with %d callers each share one Redis beside them, for %s a turn. Each
caller asks for one token and asks again once it is answered. Keys follow a
Zipf distribution, except for the small limits, where all are asked alike.
Every process records when the takes of some keys, the hottest and others at
random, were called and answered; the histories are put together and each is
searched for an interval over the bound. So the hottest keys of the traffic
under its limits are asked for more than they have, too.`, o.Processes, o.Callers, o.Duration),
		Claims: all.claims(&o),
		Tables: all.tables(&o),
	}, nil
}
