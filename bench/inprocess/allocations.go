package inprocess

import (
	"fmt"
	"runtime"

	"github.com/sluice-go/sluice/bench/keys"
	"github.com/sluice-go/sluice/bench/report"
)

// allocations counts what a take on a known key allocates.
func allocations(o Options, s *report.Suite) error {
	fmt.Fprintln(o.Log, "allocations")
	t := report.Table{Title: "Allocations per take on a known key", Header: []string{"limiter", "objects", "bytes"}}
	all := keys.All(o.Some)
	three := contender{Name: "Sluice, three limits in one take", open: openSluiceThree}
	for _, c := range append([]contender{sluices(), three, floors()}, peers()...) {
		in, err := c.open(generous, o.Some)
		if err != nil {
			return err
		}
		objects, bytes, err := in.allocated(all, o.Draws)
		in.close()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		t.Add(c.Name, fmt.Sprintf("%.2f", objects), fmt.Sprintf("%.0f", bytes))
		if c.Name == sluiceName || c.Name == three.Name {
			s.Claims = append(s.Claims, report.Claim{
				What: c.Name + ": allocations per take", Want: "0", Got: fmt.Sprintf("%.2f", objects), Met: objects < 0.005,
			})
		}
	}
	s.Tables = append(s.Tables, t)
	return nil
}

// allocated is the mean of n takes. What goes on in the background is spread
// over them.
func (in *instance) allocated(all keys.Sequence, n int) (objects, bytes float64, err error) {
	if err := in.load(all); err != nil {
		return 0, 0, err
	}
	take := in.caller()
	take(all.At(0)) //nolint:errcheck // only fills buffers; the loop below sees the same error
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		if _, err := take(all.At(i % all.Len())); err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n), nil
}
