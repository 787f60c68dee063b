package world

import (
	"math/rand/v2"
	"time"
)

// dice returns random numbers that follow from a seed and from what they are
// for, and from nothing else. See the package comment.
func dice(seed uint64, of ...uint64) *rand.Rand {
	h := mix(seed)
	for _, n := range of {
		h = mix(h ^ n)
	}
	return rand.New(rand.NewPCG(seed, h))
}

// mix is the finalizer of splitmix64.
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// hash is FNV-1a, for what numbers are drawn for that has a name.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// between is a time from least to most, to the nanosecond.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// oneIn is true once in n times.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
