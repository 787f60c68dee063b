package inprocess

import (
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

// sizes weighs contenders with many keys, one after the other.
func sizes(o Options, s *report.Suite) error {
	t := report.Table{
		Title:  "Bytes per key",
		Header: []string{"limiter", count(o.Many) + " keys", count(o.Most) + " keys"},
		Note: fmt.Sprintf(`Live heap after a collection, less what it was before, over the number of
keys. Each key is a string of its own of %d bytes that nobody but the limiter
keeps; it counts where the limiter keeps it. httprate keeps no keys. What is not
measured takes minutes to fill, because a sync.Map does.`, keys.Length),
	}
	weights := map[string]float64{}
	for _, c := range append([]contender{sluices(), floors()}, peers()...) {
		row := []string{c.Name}
		for _, n := range []int{o.Many, o.Most} {
			if c.slow && n == o.Most {
				row = append(row, "not measured")
				continue
			}
			fmt.Fprintf(o.Log, "size: %s, %s keys\n", c.Name, count(n))
			w, err := weigh(c, n)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if n == o.Many {
				weights[c.Name] = w
			}
			row = append(row, fmt.Sprintf("%.0f", w))
		}
		t.Add(row...)
	}
	const light = "throttled" // the lightest of those that keep their keys
	s.Claims = append(s.Claims, report.AtMost(
		fmt.Sprintf("bytes per key at %s keys, against %s", count(o.Many), light), weights[light], weights[sluiceName]))
	s.Tables = append(s.Tables, t)
	return nil
}

// weigh is the bytes per key of a contender with n keys.
func weigh(c contender, n int) (float64, error) {
	before := heap()
	in, err := c.open(limit{Burst: 100, Every: time.Hour, Window: 24 * time.Hour}, n)
	if err != nil {
		return 0, err
	}
	defer in.close()
	take := in.caller()
	for i := range n {
		if ok, err := take(keys.Text(i)); err != nil || !ok {
			return 0, fmt.Errorf("take %d: allowed %t, error %v", i, ok, err)
		}
	}
	after := heap()
	runtime.KeepAlive(in)
	return (float64(after) - float64(before)) / float64(n), nil
}

// heap is what is live, after finalizers had their chance too.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
