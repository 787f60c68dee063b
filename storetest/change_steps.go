package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

// changeSteps are what happens to a bucket when its limit changes: what is
// used stays used, and is repaid by the new limit's rules.
func changeSteps() []Check {
	return checks([]scenario{
		{name: "limit change: raised", steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("a", "10/s burst 50", 30)), "yes: took 30, 0 left, full in 5s"},
			{0, take(on("a", "100/s burst 50", 1)), "no: 0 left, retry in 10ms, full in 500ms"},
		}},
		{name: "limit change: lowered", steps: []step{
			{0, take(on("a", "10/s burst 50", 30)), "yes: took 30, 20 left, full in 3s"},
			{0, take(on("a", tenPer, 1)), "no: -10 left, retry in 1.1s, full in 3s"},
			// The refusal has not changed the bucket.
			{0, take(on("a", "10/s burst 50", 20)), "yes: took 20, 0 left, full in 5s"},
			{1100 * ms, adjust(on("a", tenPer, 0)), "yes: -19 left, full in 3.9s"},
			{0, adjust(on("a", tenPer, -20)), "yes: took -20, 1 left, full in 1.9s"},
			{0, peek(on("a", tenPer, 2)), "no: 1 left, retry in 100ms, full in 1.9s"},
		}},
		{name: "limit change: another period", steps: []step{
			{0, take(on("a", "60/minute", 60)), "yes: took 60, 0 left, full in 1m0s"},
			{30 * time.Second, take(on("a", "60/hour", 1)), "yes: took 1, 29 left, full in 31m0s"},
			{time.Minute, take(on("a", "60/minute", 1)), "yes: took 1, 29 left, full in 31s"},
			{0, take(on("f", "10/minute fixed", 8)), "yes: took 8, 2 left, full in 59.5995s"},
			{0, take(on("f", "10/hour fixed", 3)), "no: 2 left, retry in 37m59.5995s, full in 37m59.5995s"},
			{0, take(on("f", "10/hour fixed", 2)), "yes: took 2, 0 left, full in 37m59.5995s"},
			{time.Minute, take(on("f", "10/minute fixed", 1)), "no: 0 left, retry in 59.5995s, full in 59.5995s"},
			{0, take(on("f", "12/hour fixed", 1)), "yes: took 1, 1 left, full in 36m59.5995s"},
		}},
		{name: "limit change: a refusal at another rate is one", steps: []step{
			{0, take(on("a", "1/minute burst 10", 10)), "yes: took 10, 0 left, full in 10m0s"},
			{0, peek(on("a", "1/s burst 10", 2)), "no: 0 left, retry in 2s, full in 10s"},
			{0, take(on("a", "1/s burst 10", 2)), "no: 0 left, retry in 2s, full in 10s"},
			{2 * time.Second, take(on("a", "1/minute burst 10", 3)), "no: 2 left, retry in 1m0s, full in 8m0s"},
			{0, take(on("a", "1/s burst 10", 2)), "yes: took 2, 0 left, full in 10s"},
			{0, take(on("a", "1/minute burst 10", 2)), "no: 0 left, retry in 2m0s, full in 10m0s"},
			{2 * time.Second, peek(on("a", "1/minute burst 10", 1)), "no: 0.033 left, retry in 58s, full in 9m58s"},
		}},
		{name: "limit change: a refusal is none", steps: []step{
			{0, take(on("f", "10/minute fixed", 8)), "yes: took 8, 2 left, full in 29.5995s"},
			{0, take(on("f", "10/hour fixed", 3)), "no: 2 left, retry in 39m29.5995s, full in 39m29.5995s"},
			{0, peek(on("f", "10/day UTC", 2)), "yes: 2 left, full in 13h39m29.5995s"},
			{0, adjust(on("f", "10/hour fixed", 0)), "yes: 2 left, full in 39m29.5995s"},
			{30 * time.Second, take(on("f", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 59.5995s"},
		}},
		{name: "limit change: another algorithm", steps: []step{
			{0, take(on("a", tenPer, 15)), "yes: took 15, 5 left, full in 1.5s"},
			{500 * ms, take(on("a", "20/minute fixed", 6)), "yes: took 6, 4 left, full in 29.0995s"},
			{0, take(on("a", tenPer, 5)), "no: 4 left, retry in 100ms, full in 1.6s"},
			{0, take(on("a", tenPer, 4)), "yes: took 4, 0 left, full in 2s"},
			{time.Second, take(on("a", "5/day UTC", 1)), "no: -5 left, retry in 13h39m28.0995s, full in 13h39m28.0995s"},
		}},
		{name: "limit change: to and from sliding windows", needs: sluice.CanWindow, steps: []step{
			{0, take(on("a", tenPer, 15)), "yes: took 15, 5 left, full in 1.5s"},
			{500 * ms, take(on("a", "32/32s sliding", 6)), "yes: took 6, 16 left, full in 32.0995s"},
			{time.Second, take(on("a", "40/32s sliding", 24)), "yes: took 24, 0 left, full in 32.0995s"},
			{0, take(on("a", "50/16s sliding", 11)), "no: 10 left, retry in 16.0995s, full in 16.0995s"},
			{0, take(on("a", "50/minute fixed", 10)), "yes: took 10, 0 left, full in 28.0995s"},
			{0, take(on("a", "60/32s sliding", 10)), "yes: took 10, 0 left, full in 32.0995s"},
			{0, take(on("a", "10/s burst 61", 2)), "no: 1 left, retry in 100ms, full in 6s"},
		}},
		{name: "limit change: to and from concurrency", needs: sluice.CanLease, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, lease("x", 10*time.Second, on("a", "2 concurrent", 1)), "yes: took 1, 1 left, full in 10s"},
			{0, lease("y", 10*time.Second, on("a", "1 concurrent", 1)), "no: 0 left, retry in 1s, in 10s at the latest, full in 10s"},
			{0, lease("y", 10*time.Second, on("a", "3 concurrent", 2)), "yes: took 2, 0 left, full in 10s"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, release("x"), "yes: 0 left, full in 2s"},
			{0, commit("y"), "yes: 0 left, full in 2s"},
		}},
	})
}
