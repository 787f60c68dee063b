package holding

import (
	"math/bits"
	"time"
)

// histogram counts durations in steps of an eighth, which is a lot finer than
// what is compared with it.
type histogram [8 * 64]int64

func (h *histogram) add(d time.Duration) { h[step(d)]++ }

// step is the index of the step that d is in.
func step(d time.Duration) int {
	n := uint64(max(d, 1))
	exp := bits.Len64(n) - 1
	if exp < 3 {
		return int(n)
	}
	return 8*(exp-2) + int(n>>(exp-3)&7)
}

// upper is the longest duration of a step.
func upper(step int) time.Duration {
	if step < 8 {
		return time.Duration(step)
	}
	exp, part := step/8+2, step%8
	return time.Duration((uint64(part)+9)<<(exp-3)) - 1
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// quantile is the duration that this share of all does not exceed.
func (h *histogram) quantile(share float64) time.Duration {
	var total, sum int64
	for _, n := range h {
		total += n
	}
	for i, n := range h {
		if sum += n; n > 0 && float64(sum) >= share*float64(total) {
			return upper(i)
		}
	}
	return 0
}
