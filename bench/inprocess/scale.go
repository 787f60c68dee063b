package inprocess

import (
	"fmt"
	"runtime"

	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

// scale follows the time per take as keys get more. All keys are equally
// likely, which is the worst case for caches.
func scale(o Options, s *report.Suite) error {
	contenders := []contender{sluices(), floors()}
	for _, p := range peers() {
		if p.Name == "go-limiter" { // of those with buckets, the fastest
			contenders = append(contenders, p)
		}
	}
	t := report.Table{
		Title:  "Nanoseconds per take and core, as keys get more",
		Header: []string{"keys"},
		Note: `Every key is equally likely. The floor shows what is left to the caches: its
work is the same at any size.`,
	}
	for _, c := range contenders {
		t.Header = append(t.Header, c.Name)
	}
	cores := float64(runtime.GOMAXPROCS(0))
	least := min(1000, o.Some)
	var first, last []float64
	for n := least; n <= o.Most; n *= 10 {
		fmt.Fprintf(o.Log, "scale: %s keys\n", count(n))
		sc := scenario{limit: generous, keys: n, draw: func(seed uint64) keys.Sequence { return keys.Uniform(n, o.Draws, seed) }}
		few := o
		few.Rounds = min(3, o.Rounds)
		standings, err := sc.run(few, contenders)
		if err != nil {
			return err
		}
		row := []string{count(n)}
		last = nil
		for i := range standings {
			ns := cores * 1e9 / standings[i].Rate()
			last = append(last, ns)
			row = append(row, fmt.Sprintf("%.0f", ns))
		}
		if first == nil {
			first = last
		}
		t.Add(row...)
	}
	// Sluice may slow down by cache misses, so by as much as the floor.
	s.Claims = append(s.Claims, report.AtMost(
		fmt.Sprintf("time per take at %s keys, as a multiple of that at %s, over the floor's", count(o.Most), count(least)),
		1.2, last[0]/first[0]/(last[1]/first[1])))
	s.Tables = append(s.Tables, t)
	return nil
}
