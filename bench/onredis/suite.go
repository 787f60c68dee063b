// Package onredis is the suite of limiters that share their state through
// Redis: Sluice's store, redis_rate, and a script that does the least.
package onredis

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds  int
	Slot    time.Duration
	Callers int
	Keys    int
	Draws   int // keys in each caller's sequence
	Log     io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 15, Slot: 500 * time.Millisecond, Callers: 64, Keys: 1_000_000, Draws: 1 << 15, Log: log}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Slot: 20 * time.Millisecond, Callers: 4, Keys: 1000, Draws: 100, Log: log}
}

// limit is a bucket of burst tokens, one of which comes back every so often.
type limit struct {
	burst   int
	every   time.Duration
	callers int
}

// keepKeys is how long the bare script keeps a key.
const keepKeys = time.Hour

// side is a contender that is set up.
type side struct {
	caller func() contest.Take
	close  func()
}

type contender struct {
	name string
	open func(address string, l limit) (*side, error)
}

// contenders are in the order that claims refers to them.
func contenders() []contender {
	return []contender{
		{"Sluice, combining off", openSluice("separate", false, "")},
		{"Sluice, combining on", openSluice("combined", true, "")},
		{"Sluice, three limits, combining off", openSluice("three", false, "rps", "rpm", "rpd")},
		{"redis_rate on go-redis", openRedisRate},
		{"bare script on rueidis", openBare},
	}
}

func claims(st []contest.Standing) []report.Claim {
	separate, combined, three, redisRate, bare := &st[0], &st[1], &st[2], &st[3], &st[4]
	return []report.Claim{
		report.AtLeast("combining off: throughput over redis_rate's", 2, separate.Ratio(redisRate)),
		report.AtLeast("combining on: throughput over redis_rate's", 2.5, combined.Ratio(redisRate)),
		report.AtLeast("combining off: throughput over the bare script's", 0.7, separate.Ratio(bare)),
		report.AtMost("three limits in one take: cost over that of one", 1.5, separate.Ratio(three)),
	}
}

// Run measures everything on a server of its own.
func Run(o Options) (s *report.Suite, err error) {
	fmt.Fprintln(o.Log, "redis")
	server, err := redisserver.Start()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	standings, err := compare(o, server.Address)
	if err != nil {
		return nil, err
	}
	s = &report.Suite{
		Name:  "redis",
		Title: "On Redis",
		Intro: fmt.Sprintf(`One server beside the callers. %d callers in one process ask for one token at a
time of %s keys, chosen by a Zipf distribution; nothing is refused. The bare
script does the least that a bucket needs and answers yes or no; it shows what
the client and the server cost by themselves.`, o.Callers, report.Count(float64(o.Keys))),
		Claims: claims(standings),
	}
	t := report.Table{Title: "Takes per second", Header: []string{"limiter", "takes", "times redis_rate", "client CPU per take"}}
	for i := range standings {
		t.Add(standings[i].Name, report.Count(standings[i].Rate()), fmt.Sprintf("%.2f", standings[i].Ratio(&standings[3])),
			fmt.Sprintf("%.1f µs", contest.Median(standings[i].CPU)/1000))
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

func compare(o Options, address string) ([]contest.Standing, error) {
	l := limit{burst: 10_000_000, every: 6 * time.Minute, callers: o.Callers}
	var sides []contest.Contender
	for _, c := range contenders() {
		side, err := c.open(address, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer side.close()
		sides = append(sides, contest.Contender{Name: c.name, Caller: side.caller})
	}
	p := contest.Plan{Rounds: o.Rounds, Slot: o.Slot, Sequences: keys.Each(o.Callers, func(seed uint64) keys.Sequence {
		return keys.Zipf(o.Keys, o.Draws, seed)
	})}
	return p.Run(sides)
}
