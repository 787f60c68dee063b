package sluice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLinesElect compares who acts with what it is to be: by rank, everyone who
// shares no line with somebody who acts already.
func TestLinesElect(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var ls lines
		start := time.Now()
		var waiters []*waiter
		for step := range 100 {
			if len(waiters) == 0 || r.IntN(3) == 0 {
				w := newWaiter(Normal)
				w.rank = start.Add(time.Duration(r.IntN(8)) * time.Second)
				waiters = append(waiters, w)
			}
			w := waiters[r.IntN(len(waiters))]
			var keys []Key
			for k := range 5 {
				if r.IntN(3) == 0 {
					keys = append(keys, Key{Limit: fmt.Sprint(k)})
				}
			}
			ls.stand(w, keys)

			in := slices.DeleteFunc(slices.Clone(waiters), func(w *waiter) bool { return len(w.keys) == 0 })
			slices.SortFunc(in, func(a, b *waiter) int {
				if a.before(b) {
					return -1
				}
				return 1
			})
			taken := map[Key]bool{}
			for i, w := range in {
				kept := slices.ContainsFunc(w.keys, func(k Key) bool { return taken[k] })
				if w.acting == kept {
					t.Fatalf("seed %d, step %d: the one in place %d acts: %t, want %t", seed, step, i, w.acting, !kept)
				}
				for _, k := range w.keys {
					taken[k] = taken[k] || !kept
					if acting := ls.byKey[k].acting; w.acting != (acting == w) {
						t.Fatalf("seed %d, step %d: the line of %v says otherwise than the caller", seed, step, k)
					}
				}
			}
			if len(ls.all) != len(in) {
				t.Fatalf("seed %d, step %d: %d wait, want %d", seed, step, len(ls.all), len(in))
			}
		}
	}
}
