package world

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var (
	one     = flag.Int64("world.seed", -1, "play the world of this seed alone, and print its history")
	without = flag.String("world.without", "", "the numbers of faults to leave out of it, as a failure prints them")
	count   = flag.Int("world.count", 100, "how many worlds to play")
	from    = flag.Uint64("world.from", 1, "the first seed")
	most    = flag.Int("world.failures", 3, "after how many failing worlds to stop")
)

func play(t *testing.T, p Plan, keep bool) (r *Report) {
	synctest.Test(t, func(*testing.T) { r = Play(p, keep) })
	return r
}

// TestWorlds plays many worlds, a part of them beside each other.
func TestWorlds(t *testing.T) {
	if *one >= 0 {
		replay(t)
		return
	}
	var next atomic.Int64
	var played, told, effects, failed atomic.Int64
	var faults [faultKinds]atomic.Int64
	t.Run("worlds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < int64(*count) && failed.Load() < int64(*most); n = next.Add(1) - 1 {
					r := play(t, NewPlan(*from+uint64(n)), false)
					played.Add(1)
					told.Add(int64(r.Told))
					effects.Add(int64(r.Effects))
					for _, f := range r.Plan.Faults {
						faults[f.Kind].Add(1)
					}
					if len(r.Failures) > 0 && failed.Add(1) <= int64(*most) {
						t.Error(Explain(r, func(p Plan, keep bool) *Report { return play(t, p, keep) }))
					}
				}
			})
		}
	})
	var kinds []string
	for k := range faults {
		kinds = append(kinds, fmt.Sprintf("%s %d", FaultKind(k), faults[k].Load()))
		if faults[k].Load() == 0 && *count >= 1000 && failed.Load() == 0 {
			t.Errorf("no world had the fault %q", FaultKind(k))
		}
	}
	t.Logf("%d worlds: %d answers to callers, %d operations of the store, %d failed; faults: %s",
		played.Load(), told.Load(), effects.Load(), failed.Load(), strings.Join(kinds, ", "))
}

// replay plays one world and prints everything.
func replay(t *testing.T) {
	p := NewPlan(uint64(*one))
	var left []int
	for s := range strings.SplitSeq(*without, ",") {
		if n, err := strconv.Atoi(s); err == nil {
			left = append(left, n)
		}
	}
	slices.Sort(left)
	for _, n := range slices.Backward(left) {
		p.Faults = slices.Delete(slices.Clone(p.Faults), n, n+1)
	}
	r := play(t, p, true)
	for _, l := range r.lines {
		fmt.Println(l)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
}

// TestSameSeedSameHistory plays worlds twice, and twice at once, so that
// scheduling has every chance to make a difference.
func TestSameSeedSameHistory(t *testing.T) {
	const seeds = 40
	hashes := map[uint64]string{}
	var mu sync.Mutex
	t.Run("play", func(t *testing.T) {
		for i := range 4 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for n := range uint64(seeds / 2) {
					seed := *from + n + uint64(i%2)*seeds/2
					r := play(t, NewPlan(seed), true)
					mu.Lock()
					if h := hashes[seed]; h == "" {
						hashes[seed] = r.Hash
					} else if h != r.Hash {
						t.Errorf("seed %d has two histories: %s and %s", seed, h, r.Hash)
					}
					mu.Unlock()
				}
			})
		}
	})
	if len(hashes) != seeds {
		t.Errorf("%d seeds were played", len(hashes))
	}
}

// TestShrink leaves out the faults that are not to blame.
func TestShrink(t *testing.T) {
	p := Plan{Faults: []Fault{{Kind: Slow}, {Kind: Crash}, {Kind: Stall}, {Kind: Crash, Node: 1}, {Kind: Deaf}}}
	least := Shrink(p, "bound", func(p Plan) *Report {
		r := &Report{Plan: p}
		if slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Crash }) {
			r.Failures = []Failure{{Check: "bound"}}
		} else {
			r.Failures = []Failure{{Check: "figures"}}
		}
		return r
	})
	if len(least.Faults) != 1 || least.Faults[0].Kind != Crash {
		t.Errorf("got %v", least.Faults)
	}
	if got, want := dropped(p, least), " -world.without 0,1,2,4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
