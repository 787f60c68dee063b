package inprocess

import (
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

const watches = 3

// pauses looks for the longest take while many keys expire.
func pauses(o Options, s *report.Suite) error {
	t := report.Table{
		Title:  fmt.Sprintf("Longest take while %s keys expire", count(o.Many)),
		Header: []string{"limiter", "longest", "takes over 1 ms, each second"},
		Note: fmt.Sprintf(`One caller takes from %d keys without a break, while %s others expire under
the shortest clean-up the limiter can be set to: for %s, which is five times
that, and Sluice until all of them are gone. Medians of %d rounds. The floor
forgets nothing: its figures are the machine's own pauses. x/time/rate and
throttled (in its set-up without a bound) forget nothing either.`, hot, count(o.Many), o.Watch, watches),
	}
	contenders := []contender{sluices(), {Name: "floor (nothing expires)", expiring: openFloor}}
	for _, p := range peers() {
		if p.expiring != nil {
			contenders = append(contenders, p)
		}
	}
	longest, slow := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	all := keys.All(o.Many + hot)
	for range min(watches, o.Rounds) {
		for i, c := range contenders {
			fmt.Fprintf(o.Log, "pauses: %s\n", c.Name)
			l, n, err := watch(c, all, o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			longest[i], slow[i] = append(longest[i], l.Seconds()), append(slow[i], n)
		}
	}
	for i, c := range contenders {
		d := time.Duration(contest.Median(longest[i]) * float64(time.Second))
		t.Add(c.Name, d.Round(time.Microsecond).String(), fmt.Sprintf("%.3g", contest.Median(slow[i])))
	}
	s.Tables = append(s.Tables, t)
	return nil
}

// hot is how many keys are still in use while the others expire.
const hot = 1000

// watch loads the keys but for the last ones, which it then takes from until
// the others are gone, or, where that cannot be seen, for several times the
// clean-up interval.
func watch(c contender, all keys.Sequence, o Options) (longest time.Duration, slow float64, err error) {
	// A taken token is back, and a window over, a fifth of the watch later.
	in, err := c.expiring(limit{Burst: 1_000_000, Every: o.Watch / 5, Window: o.Watch / 5}, all.Len())
	if err != nil {
		return 0, 0, err
	}
	defer in.close()
	split := (all.Len() - hot) * keys.Length
	if err := in.load(all[:split]); err != nil {
		return 0, 0, err
	}
	used, take := all[split:], in.caller()
	runtime.GC()
	start := time.Now()
	for i, last := 0, start; !in.over(i, last.Sub(start), o.Watch); i++ {
		if _, err := take(used.At(i % hot)); err != nil {
			return 0, 0, err
		}
		now := time.Now()
		took := now.Sub(last)
		longest = max(longest, took)
		if took > time.Millisecond {
			slow++
		}
		last = now
	}
	return longest, slow / time.Since(start).Seconds(), nil
}

// over says whether the keys have expired. It may cost something, so it looks
// only now and then.
func (in *instance) over(i int, passed, watch time.Duration) bool {
	if in.size == nil || passed > 12*watch {
		return passed > watch
	}
	return i%1024 == 0 && passed > watch && in.size() <= hot
}
