package schedule

import (
	"math"
	"sort"
)

// Era is a time in which windows have one size, in microseconds. A plan whose
// window size was changed has several.
type Era struct {
	Starts int64 `json:"starts"`
	Size   int64 `json:"size"`
}

// maxEras is about how many eras a change of the window size makes.
const maxEras = 1000

// NextEras is what becomes of a plan's eras when windows get a new size. used
// are the windows that have events, in order. Those that end after the window
// of the new size that now is in stay as they are, and between them, where
// windows of the new size fit, there are such. If that makes too many eras, the
// last of those stretches keep their size, too.
func NextEras(eras []Era, used []Window, now, size int64) []Era {
	if len(used) == 0 {
		return []Era{{0, size}}
	}
	starts := floorDiv(now, size) * size
	var out []Era
	for i, e := range eras {
		if i+1 < len(eras) && eras[i+1].Starts <= used[0].Start {
			continue // nothing is left of it
		}
		if e.Starts < starts {
			out = append(out, e)
		}
	}
	if len(out) > 0 {
		out[0].Starts = 0
	}
	most := len(out) + maxEras
	add := func(starts, size int64) {
		if n := len(out); n == 0 {
			out = append(out, Era{0, size})
		} else if out[n-1].Size != size {
			out = append(out, Era{starts, size})
		}
	}
	next := starts
	for _, w := range used {
		if w.Start+w.Size <= starts {
			continue
		}
		if next+size <= w.Start && len(out) < most {
			add(next, size)
		}
		add(w.Start, w.Size)
		next = ceilDiv(w.Start+w.Size, size) * size
	}
	add(next, size)
	return out
}

// Window is a window as a store keeps it. Times are microseconds.
type Window struct {
	Start int64
	Size  int64
	Max   int     // how many events fit
	Used  int     // how many there are
	Open  []int64 // pairs of from and to if it is not open all the time; nil otherwise
}

// grid lays a plan's windows over time.
type grid struct {
	eras  []Era // in order; the first starts at 0
	max   int   // in a window of the last era
	hours *hours
}

// era is the era of t and where it ends.
func (g *grid) era(t int64) (e Era, ends int64) {
	next := max(sort.Search(len(g.eras), func(i int) bool { return g.eras[i].Starts > t }), 1)
	if next == len(g.eras) {
		return g.eras[next-1], forever
	}
	return g.eras[next-1], g.eras[next].Starts
}

// capacity is how many events fit into a window of that size. Windows of an
// earlier size have the same rate, rounded down.
func (g *grid) capacity(size int64) int {
	last := g.eras[len(g.eras)-1].Size
	if size == last {
		return g.max
	}
	return int(int64(g.max) * size / last) // below 2^62, see plan.go
}

// window is the first window that is open at or after t, and the first open
// moment in it that is not before t.
func (g *grid) window(t int64) (w Window, earliest int64, ok bool) {
	for {
		opens, _, ok := g.hours.next(t)
		if !ok || opens >= forever/2 {
			return Window{}, 0, false
		}
		e, ends := g.era(opens)
		start := floorDiv(opens, e.Size) * e.Size
		limit := g.capacity(e.Size)
		if start+e.Size > ends || limit == 0 {
			// It reaches into the next era, or that era's pace leaves
			// nothing for windows as short as these.
			t = ends
			continue
		}
		w = Window{Start: start, Size: e.Size, Max: limit, Open: g.open(start, start+e.Size)}
		return w, opens, true
	}
}

// open is which parts of a window are open, or nil if all of it is.
func (g *grid) open(start, end int64) []int64 {
	if g.hours == nil {
		return nil
	}
	var parts []int64
	for t := start; t < end; {
		opens, closes, ok := g.hours.next(t)
		if !ok || opens >= end {
			break
		}
		closes = min(closes, end)
		if n := len(parts); n > 0 && parts[n-1] == opens {
			parts[n-1] = closes
		} else {
			parts = append(parts, opens, closes)
		}
		t = closes
	}
	if len(parts) == 2 && parts[0] == start && parts[1] == end {
		return nil
	}
	return parts
}

// windows are the next n windows from t on, and where the one after them
// begins: between t and there, there are no others.
func (g *grid) windows(t int64, n int) (all []Window, next int64) {
	for {
		w, _, ok := g.window(t)
		if !ok {
			return all, max(t, forever)
		}
		if len(all) == n {
			return all, w.Start
		}
		all = append(all, w)
		t = w.Start + w.Size
	}
}

// skip is the start of the n-th window after the one that begins at start.
func (g *grid) skip(start int64, n int) int64 {
	left := int64(n)
	t := start
	for {
		w, opens, ok := g.window(t)
		if !ok {
			return forever
		}
		_, closes, _ := g.hours.next(opens)
		_, ends := g.era(w.Start)
		// So many whole windows begin before this stretch ends.
		here := ceilDiv(min(closes, ends)-w.Start, w.Size)
		if ends < forever {
			here = min(here, (ends-w.Start)/w.Size)
		}
		here = max(here, 1)
		if left < here {
			return w.Start + left*w.Size
		}
		left -= here
		t = w.Start + here*w.Size
	}
}

// distance is how many windows begin in [from, to).
func (g *grid) distance(from, to int64) int {
	count := int64(0)
	for t := from; t < to && count < math.MaxInt32; {
		w, opens, ok := g.window(t)
		if !ok || w.Start >= to {
			break
		}
		_, closes, _ := g.hours.next(opens)
		_, ends := g.era(w.Start)
		here := ceilDiv(min(closes, ends, to)-w.Start, w.Size)
		if ends < forever {
			here = min(here, (ends-w.Start)/w.Size)
		}
		here = max(here, 1)
		count += here
		t = w.Start + here*w.Size
	}
	return int(count)
}
