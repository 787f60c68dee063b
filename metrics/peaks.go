package metrics

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// mostPeaks is how many combinations of resource and limit are told apart.
const mostPeaks = 200

// peakWindow is half of how long a peak is shown.
const peakWindow = 30 * time.Second

// peaks are how full the fullest bucket of each resource and limit was lately.
// The map is replaced, not changed, so that it is read without a lock.
type peaks struct {
	mu sync.Mutex
	at atomic.Pointer[map[place]*peak]
}

type place struct{ resource, limit string }

// peak is the highest utilization in this window of time and in the one
// before.
type peak struct {
	mu     sync.Mutex
	window atomic.Int64
	top    atomic.Uint64 // bits of a float64, in percent
	before float64
}

// saw notes a utilization in percent.
func (ps *peaks) saw(resource, limit string, used float64, now time.Time) {
	p := ps.find(place{resource, limit})
	window := now.UnixNano() / int64(peakWindow)
	if p.window.Load() == window && used <= math.Float64frombits(p.top.Load()) {
		return // the common case
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(window)
	if used > math.Float64frombits(p.top.Load()) {
		p.top.Store(math.Float64bits(used))
	}
}

// turn begins a window if it is time. The top goes down before the window is
// new, so that a reader of the new one never sees an old top.
func (p *peak) turn(window int64) {
	last := p.window.Load()
	if window <= last {
		return
	}
	p.before = 0
	if window == last+1 {
		p.before = math.Float64frombits(p.top.Load())
	}
	p.top.Store(0)
	p.window.Store(window)
}

func (ps *peaks) find(at place) *peak {
	if all := ps.at.Load(); all != nil {
		if p := (*all)[at]; p != nil {
			return p
		}
		if rest := (*all)[place{other, other}]; rest != nil && len(*all) >= mostPeaks {
			return rest
		}
	}
	return ps.add(at)
}

// add makes room for one more place, or for all others at the end.
func (ps *peaks) add(at place) *peak {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var old map[place]*peak
	if all := ps.at.Load(); all != nil {
		old = *all
	}
	if old[at] == nil && len(old) >= mostPeaks {
		at = place{other, other}
	}
	if p := old[at]; p != nil {
		return p // somebody else was quicker
	}
	all := make(map[place]*peak, len(old)+1)
	maps.Copy(all, old)
	p := &peak{}
	all[at] = p
	ps.at.Store(&all)
	return p
}

func (ps *peaks) write(w *sheet) {
	w.rows("sluice_utilization_ratio",
		"How full the fullest bucket was that was asked for in the last minute, by resource and limit; 1 is used up, above is debt. Beyond the first 200 combinations all are other.",
		[]string{"resource", "limit"}, func(add func(float64, ...string)) {
			all := ps.at.Load()
			if all == nil {
				return
			}
			window := time.Now().UnixNano() / int64(peakWindow)
			shown := map[place]float64{} // places may be the same once they are valid labels
			for at, p := range *all {
				p.mu.Lock()
				p.turn(window)
				used := max(math.Float64frombits(p.top.Load()), p.before)
				p.mu.Unlock()
				at = place{label(at.resource), label(at.limit)}
				shown[at] = max(shown[at], used/100)
			}
			for at, used := range shown {
				add(used, at.resource, at.limit)
			}
		})
}
