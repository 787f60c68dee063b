package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

func holdSteps() []Check {
	scenarios := []scenario{
		// What is held is not used: it does not make a bucket full any later.
		{name: "hold and return", steps: []step{
			{0, hold(1, 10*time.Second, on("a", tenPer, 8), 0), "held 8 for 10s, 20 left, 12 free"},
			{0, list(), "a 10/s burst 20: 20 left, 8 held, 0 consumed, full in 0s"},
			{0, take(on("a", tenPer, 12)), "yes: took 12, 8 left, 0 free, full in 1.2s"},
			{0, giveBack(1, on("a", tenPer, 3)), "done"},
			{0, list(), "a 10/s burst 20: 5 left, 15 consumed, full in 1.5s"},
			{0, giveBack(1, on("a", tenPer, 0)), "done"},
			{0, giveBack(1, on("a", tenPer, 8)), "done"},
			{0, giveBack(2, on("a", tenPer, 8)), "done"},
			{0, giveBack(2, on("b", tenPer, 8)), "done"},
			{0, list(), "a 10/s burst 20: 5 left, 15 consumed, full in 1.5s"},
			{0, hold(3, 10*time.Second, on("a", tenPer, 8), 0), "held 5 for 10s, 5 left, 0 free"},
			{0, giveBack(3, on("a", tenPer, 100)), "done"},
			{0, list(), "a 10/s burst 20: 0 left, 20 consumed, full in 2s"},
		}, needs: sluice.CanList},
		{name: "hold: refill stops at what is held", steps: []step{
			{0, hold(1, time.Hour, on("a", tenPer, 8), 0), "held 8 for 1h0m0s, 20 left, 12 free"},
			{0, take(on("a", tenPer, 12)), "yes: took 12, 8 left, 0 free, full in 1.2s"},
			{10 * time.Minute, peek(on("a", tenPer, 13)), "no: 20 left, 12 free, retry in 50m0.1s, for what is held"},
			{0, adjust(on("a", tenPer, -1)), "yes: took -1 of which 0 back, 20 left, 12 free"},
			{0, take(on("a", tenPer, 12)), "yes: took 12, 8 left, 0 free, full in 1.2s"},
			{0, adjust(on("a", tenPer, -20)), "yes: took -20 of which 12 back, 20 left, 12 free"},
		}},
		{name: "hold: what has expired is spent", steps: []step{
			{0, hold(1, time.Second, on("a", tenPer, 20), 0), "held 20 for 1s, 20 left, 0 free"},
			{time.Second - 1*µs, peek(on("a", tenPer, 1)), "no: 20 left, 0 free, retry in 100.001ms, for what is held"},
			{1 * µs, list(), "a 10/s burst 20: 0 left, 20 consumed, full in 2s"},
			{0, giveBack(1, on("a", tenPer, 0)), "done"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{100 * ms, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{0, giveBack(1, on("a", tenPer, 0)), "done"},
			{0, rehold(2, time.Second, on("a", tenPer, 20), 0, 1, 0), "nothing, 0 left, 0 free, retry in 100µs"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
		}, needs: sluice.CanList},
		{name: "hold: renewed", steps: []step{
			{0, hold(1, 5*time.Second, on("a", tenPer, 8), 0), "held 8 for 5s, 20 left, 12 free"},
			{0, rehold(2, 5*time.Second, on("a", tenPer, 8), 0, 1, 5), "held 8 for 5s, 15 left, 7 free"},
			{0, rehold(3, 5*time.Second, on("a", tenPer, 8), 0, 1, 8), "held 7 for 5s, 15 left, 0 free"},
			{0, rehold(4, 5*time.Second, on("a", tenPer, 20), 10, 3, 0), "nothing, 15 left, 7 free, retry in 300ms, for what is held"},
			// Closed all the same.
			{0, giveBack(3, on("a", tenPer, 7)), "done"},
			{0, peek(on("a", tenPer, 7)), "yes: 15 left, 7 free, full in 500ms"},
		}},
		// Asking for more than there can be gives back, and tells what is left.
		{name: "hold: reported", steps: []step{
			{0, hold(1, 5*time.Second, on("a", tenPer, 8), 0), "held 8 for 5s, 20 left, 12 free"},
			{0, hold(2, 5*time.Second, on("a", tenPer, 8), 0), "held 8 for 5s, 20 left, 4 free"},
			{0, rehold(3, 5*time.Second, on("a", tenPer, 0), 21, 1, 3), "nothing, 17 left, 9 free, never"},
			// Under another limit, which the bucket does not adopt.
			{0, rehold(4, 5*time.Second, on("a", "10/s burst 50", 0), 51, 2, 8), "nothing, 39 left, 39 free, never"},
			{0, list(), "a 10/s burst 20: 9 left, 11 consumed, full in 1.1s"},
			{0, hold(5, 5*time.Second, on("f", "10/minute fixed", 4), 0), "held 4 for 5s, 10 left, 6 free"},
			{0, rehold(6, 5*time.Second, on("f", "10/minute fixed", 0), 11, 5, 1), "nothing, 9 left, 9 free, never"},
			{0, hold(7, 5*time.Second, on("d", "10/day UTC", 4), 0), "held 4 for 5s, 10 left, 6 free"},
			{0, rehold(8, 5*time.Second, on("d", "10/day UTC", 0), 11, 7, 4), "nothing, 6 left, 6 free, never"},
		}, needs: sluice.CanList},
		{name: "hold: twice in one call, of a bucket that had another limit", steps: []step{
			{0, hold(3, time.Second, on("a", "20/hour", 8), 0), "held 8 for 1s, 20 left, 12 free"},
			{time.Second, holdTwice(on("a", "20/minute fixed", 20), 20), "nothing, 12 left, 12 free, retry in 28.5995s | nothing, 12 left, 12 free, retry in 28.5995s"},
		}},
		{name: "hold: at least so much", steps: []step{
			{0, take(on("a", tenPer, 15)), "yes: took 15, 5 left, full in 1.5s"},
			{0, hold(1, time.Second, on("a", tenPer, 10), 8), "nothing, 5 left, 5 free, retry in 300ms"},
			{0, hold(1, time.Second, on("a", tenPer, 30), 21), "nothing, 5 left, 5 free, never"},
			{300 * ms, hold(1, time.Second, on("a", tenPer, 10), 8), "held 8 for 1s, 8 left, 0 free"},
			{0, adjust(on("d", tenPer, 25)), "yes: took 25, -5 left, full in 2.5s"},
			{0, hold(3, time.Second, on("d", tenPer, 5), 0), "nothing, -5 left, -5 free, retry in 500.1ms"},
			{0, hold(3, time.Second, on("d", tenPer, 5), 1), "nothing, -5 left, -5 free, retry in 600ms"},
		}},
		{name: "hold: sliding windows cannot be held", needs: sluice.CanWindow, steps: []step{
			{0, hold(1, time.Second, on("w", "10/s sliding", 1), 0), "nothing, 10 left, 10 free, never"},
		}},
		{name: "hold: concurrency cannot be held", needs: sluice.CanLease, steps: []step{
			{0, hold(1, time.Second, on("c", "2 concurrent", 1), 0), "nothing, 2 left, 2 free, never"},
		}},
		{name: "hold: it ends with its fixed window", steps: []step{
			{0, hold(1, 10*time.Minute, on("f", "10/minute fixed", 4), 0), "held 4 for 29.5995s, 10 left, 6 free"},
			{0, hold(2, time.Second, on("f", "10/minute fixed", 3), 0), "held 3 for 1s, 10 left, 3 free"},
			{0, peek(on("f", "10/minute fixed", 1)), "yes: 10 left, 3 free"},
			{time.Second, giveBack(2, on("f", "10/minute fixed", 0)), "done"},
			{0, take(on("f", "10/minute fixed", 4)), "no: 7 left, 3 free, retry in 28.5995s, for what is held, full in 28.5995s"},
			{28_599_500 * µs, take(on("f", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 1m0s"},
			{0, giveBack(1, on("f", "10/minute fixed", 0)), "done"},
			{0, peek(on("f", "10/minute fixed", 1)), "no: 0 left, retry in 1m0s, full in 1m0s"},
		}},
		{name: "hold: a reset leaves it held", steps: []step{
			{0, hold(1, 10*time.Second, on("a", tenPer, 8), 0), "held 8 for 10s, 20 left, 12 free"},
			{0, take(on("a", tenPer, 12)), "yes: took 12, 8 left, 0 free, full in 1.2s"},
			{0, reset("a"), "done"},
			{0, peek(on("a", tenPer, 13)), "no: 20 left, 12 free, retry in 10.1s, for what is held"},
			{0, giveBack(1, on("a", tenPer, 2)), "done"},
			{0, peek(on("a", tenPer, 19)), "no: 18 left, retry in 100ms, full in 200ms"},
		}},
		{name: "hold: recalled for a larger take", steps: []step{
			{0, hold(1, time.Second, on("a", tenPer, 10), 0), "held 10 for 1s, 20 left, 10 free"},
			{0, peek(on("a", tenPer, 15)), "no: 20 left, 10 free, retry in 1.5s, for what is held"},
			{0, hold(2, time.Second, on("a", tenPer, 1), 0), "held 1 for 1s, 20 left, 9 free"},
			{0, giveBack(2, on("a", tenPer, 0)), "done"},
			{0, take(on("a", tenPer, 21)), "no: 20 left, 10 free, never"},
			{0, take(on("a", tenPer, 15).shadowed()), "yes: 20 left, 10 free, retry in 1.5s, for what is held"},
			{0, hold(3, time.Second, on("a", tenPer, 1), 0), "held 1 for 1s, 20 left, 9 free"},
			{0, giveBack(3, on("a", tenPer, 0)), "done"},
			{0, take(on("a", tenPer, 15)), "no: 20 left, 10 free, retry in 1.5s, for what is held"},
			{0, hold(4, time.Second, on("a", tenPer, 1), 0), "nothing, 20 left, 10 free, retry in 1.5s, recalled"},
			{0, rehold(5, time.Second, on("a", tenPer, 10), 0, 1, 0), "nothing, 20 left, 20 free, retry in 1.5s, recalled"},
			{0, take(on("a", tenPer, 1)), "yes: took 1, 19 left, full in 100ms"},
			{0, hold(6, time.Second, on("a", tenPer, 1), 0), "nothing, 19 left, 19 free, retry in 1.5s, recalled"},
			{0, take(on("a", tenPer, 15)), "yes: took 15, 4 left, full in 1.6s"},
			{0, hold(7, time.Second, on("a", tenPer, 1), 0), "held 1 for 1s, 4 left, 3 free"},
		}},
		{name: "hold: a recall lapses", steps: []step{
			{0, hold(1, time.Second, on("a", tenPer, 10), 0), "held 10 for 1s, 20 left, 10 free"},
			{0, take(on("a", tenPer, 15)), "no: 20 left, 10 free, retry in 1.5s, for what is held"},
			{1500*ms - 1*µs, hold(2, time.Second, on("a", tenPer, 5), 0), "nothing, 14.999 left, 14.999 free, retry in 1µs, recalled"},
			{1 * µs, hold(2, time.Second, on("a", tenPer, 5), 0), "held 5 for 1s, 15 left, 10 free"},
		}},
		{name: "hold: a recall outlives the hold it was for", steps: []step{
			{0, hold(1, time.Minute, on("a", tenPer, 10), 0), "held 10 for 1m0s, 20 left, 10 free"},
			{0, take(on("a", tenPer, 15)), "no: 20 left, 10 free, retry in 1m0.5s, for what is held"},
			{0, giveBack(1, on("a", tenPer, 0)), "done"},
			{0, hold(2, time.Minute, on("a", tenPer, 10), 0), "nothing, 20 left, 20 free, retry in 1m0.5s, recalled"},
			{30 * time.Second, hold(2, time.Minute, on("a", tenPer, 10), 0), "nothing, 20 left, 20 free, retry in 30.5s, recalled"},
			{0, take(on("a", tenPer, 15)), "yes: took 15, 5 left, full in 1.5s"},
			{0, hold(2, time.Minute, on("a", tenPer, 10), 0), "held 5 for 1m0s, 5 left, 0 free"},
			{0, reset("a"), "done"},
			{0, take(on("a", tenPer, 16)), "no: 20 left, 15 free, retry in 1m0.1s, for what is held"},
			{0, reset("a"), "done"},
			{0, hold(3, time.Minute, on("a", tenPer, 1), 0), "held 1 for 1m0s, 20 left, 14 free"},
		}},
		{name: "hold: the limit changes", steps: []step{
			{0, hold(1, 10*time.Second, on("a", tenPer, 8), 0), "held 8 for 10s, 20 left, 12 free"},
			{0, take(on("a", "10/s burst 50", 1)), "yes: took 1, 49 left, 41 free, full in 100ms"},
			{0, giveBack(1, on("a", tenPer, 8)), "done"},
			// Giving back has not changed the limit again.
			{0, list(), "a 10/s burst 50: 41 left, 9 consumed, full in 900ms"},
			{0, hold(2, 10*time.Second, on("a", tenPer, 8), 0), "held 8 for 10s, 11 left, 3 free"},
			{0, take(on("a", "10/s burst 10", 1)), "no: 1 left, -7 free, retry in 800ms, for what is held, full in 900ms"},
			{0, take(on("a", "17/minute fixed", 1)), "no: 0 left, retry in 29.5995s, full in 29.5995s"},
			{0, take(on("a", "18/minute fixed", 1)), "yes: took 1, 0 left, full in 29.5995s"},
			// What was held counts as used now.
			{0, giveBack(2, on("a", tenPer, 0)), "done"},
			{0, list(), "a 18/minute fixed: 0 left, 18 consumed, full in 29.5995s"},
		}, needs: sluice.CanList},
	}
	for i := range scenarios {
		scenarios[i].needs |= sluice.CanHold
	}
	return checks(scenarios)
}
