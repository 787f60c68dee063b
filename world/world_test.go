package world

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	one   = flag.Int64("world.seed", -1, "play the world of this seed alone, and print its history")
	count = flag.Int("world.count", 1000, "how many worlds to play")
	from  = flag.Uint64("world.from", 1, "the first seed")
)

func play(t *testing.T, p Plan, keep bool) (r *Report) {
	synctest.Test(t, func(*testing.T) { r = Play(p, keep) })
	return r
}

func TestWorlds(t *testing.T) {
	if *one >= 0 {
		r := play(t, NewPlan(uint64(*one)), true)
		for _, l := range r.lines {
			fmt.Println(l)
		}
		for _, f := range r.Failures {
			t.Error(f)
		}
		return
	}
	bad := map[string]int{}
	only := os.Getenv("ONLY")
	for seed := *from; seed < *from+uint64(*count); seed++ {
		r := play(t, NewPlan(seed), false)
		if only != "" {
			r.Failures = slices.DeleteFunc(r.Failures, func(f Failure) bool { return !strings.Contains(only, f.Check) })
		}
		if len(r.Failures) > 0 {
			bad[r.Failures[0].Check]++
			if len(bad) < 20 {
				t.Errorf("seed %d: %v", seed, r.Failures[0])
			}
		}
	}
	t.Log(bad)
}

func TestSameSeedSameHistory(t *testing.T) {
	for seed := *from; seed < *from+20; seed++ {
		a, b := play(t, NewPlan(seed), true), play(t, NewPlan(seed), true)
		if a.Hash != b.Hash {
			t.Errorf("seed %d: %d and %d lines, %s and %s", seed, len(a.lines), len(b.lines), a.Hash, b.Hash)
			for i := range min(len(a.lines), len(b.lines)) {
				if a.lines[i] != b.lines[i] {
					t.Logf("\n%s\n%s", a.lines[i], b.lines[i])
					break
				}
			}
		}
	}
}
