package inprocess

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

// scenario is one way of asking.
type scenario struct {
	name  string
	limit limit
	keys  int
	draw  func(seed uint64) keys.Sequence
}

func scenarios(o Options) []scenario {
	return []scenario{
		{"1 key", oneKey, 1, func(uint64) keys.Sequence { return keys.All(1) }},
		{count(o.Some) + " keys", generous, o.Some,
			func(seed uint64) keys.Sequence { return keys.Uniform(o.Some, o.Draws, seed) }},
		{count(o.Many) + " keys, Zipf", generous, o.Many,
			func(seed uint64) keys.Sequence { return keys.Zipf(o.Many, o.Draws, seed) }},
		{count(o.Some) + " keys, refused", strict, o.Some,
			func(seed uint64) keys.Sequence { return keys.Uniform(o.Some, o.Draws, seed) }},
	}
}

func count(n int) string { return report.Count(float64(n)) }

// Scenarios by number.
const (
	hotScenario  = 0
	zipfScenario = 2
)

// throughput lets everyone run in every scenario.
func throughput(o Options, s *report.Suite) error {
	three := contender{Name: "Sluice, three limits in one take", open: openSluiceThree}
	contenders := append([]contender{sluices(), three, floors()}, peers()...)
	firstPeer := 3

	rates := report.Table{Title: "Takes per second", Header: []string{"limiter"}}
	ratios := report.Table{
		Title:  "Sluice's throughput, as a multiple of",
		Header: []string{"limiter"},
		Note: fmt.Sprintf(`Median over %d rounds of the ratio within each round. Zipf has an exponent of
%.2f. The floor is what Go's own map costs with a mutex for each of 256 shards:
it reads no clock, refills nothing and answers only yes or no. ulule and
httprate count in fixed or weighted windows, which is less work than a bucket;
httprate keeps a hash in place of the key, so two keys can share a count.
throttled keeps keys for ever in this set-up, its fastest.`, o.Rounds, keys.Skew),
	}
	costs := report.Table{
		Title:  "Processor time per take, in nanoseconds",
		Header: []string{"limiter"},
		Note: `What a take costs, whatever else the machine is doing. Waiting for a lock is
not in it, so it flatters limiters with one lock.`,
	}
	for _, c := range contenders {
		rates.Add(c.Name)
		costs.Add(c.Name)
		ratios.Add(c.Name)
	}
	for n, sc := range scenarios(o) {
		fmt.Fprintf(o.Log, "throughput: %s\n", sc.name)
		standings, err := sc.run(o, contenders)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		rates.Header = append(rates.Header, sc.name)
		costs.Header = append(costs.Header, sc.name)
		ratios.Header = append(ratios.Header, sc.name)
		for i := range standings {
			st := &standings[i]
			if sc.limit != strict && st.Allowed < 0.99 || sc.limit == strict && st.Allowed > 0.5 && o.Many > 1e5 {
				return fmt.Errorf("%s: %s allowed %.3f of the takes, so the figures mean something else", sc.name, st.Name, st.Allowed)
			}
			rates.Rows[i] = append(rates.Rows[i], report.Count(st.Rate()))
			costs.Rows[i] = append(costs.Rows[i], fmt.Sprintf("%.0f", contest.Median(st.CPU)))
			ratios.Rows[i] = append(ratios.Rows[i], fmt.Sprintf("%.2f", standings[0].Ratio(st)))
		}
		if n == hotScenario {
			peer := slices.IndexFunc(standings, func(st contest.Standing) bool { return st.Name == goLimiterName })
			s.Claims = append(s.Claims, report.AtLeast("one hot key, all cores: throughput over go-limiter's", 1, standings[0].Ratio(&standings[peer])))
		}
		if n == zipfScenario {
			best := standings[0].Closest(standings[firstPeer:])
			s.Claims = append(s.Claims,
				report.AtLeast(sc.name+": throughput over the fastest peer's ("+best.Name+")", 1.5, standings[0].Ratio(best)),
				report.AtLeast("the same with three limits in each take, over its single limit", 1, standings[1].Ratio(best)))
		}
	}
	ratios.Rows = ratios.Rows[1:] // Sluice over itself
	s.Tables = append(s.Tables, rates, ratios, costs)
	return nil
}

// run sets up the contenders, gives each all keys and lets them take turns.
func (sc *scenario) run(o Options, contenders []contender) ([]contest.Standing, error) {
	all := keys.All(sc.keys)
	var sides []contest.Contender
	for _, c := range contenders {
		in, err := c.open(sc.limit, sc.keys)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		defer in.close()
		if err := in.load(all); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		sides = append(sides, contest.Contender{Name: c.Name, Caller: in.caller})
	}
	p := contest.Plan{
		Rounds: o.Rounds, Slot: o.Slot,
		Sequences: keys.Each(runtime.GOMAXPROCS(0), sc.draw),
	}
	return p.Run(sides)
}
