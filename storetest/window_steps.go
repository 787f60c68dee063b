package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

func windowSteps() []Check {
	return checks([]scenario{
		{name: "fixed window", steps: []step{
			{0, take(on("a", "10/minute fixed", 4)), "yes: took 4, 6 left, full in 29.5995s"},
			{0, take(on("a", "10/minute fixed", 7)), "no: 6 left, retry in 29.5995s, full in 29.5995s"},
			{29_599_499 * µs, take(on("a", "10/minute fixed", 7)), "no: 6 left, retry in 1µs, full in 1µs"},
			{0, take(on("a", "10/minute fixed", 6)), "yes: took 6, 0 left, full in 1µs"},
			{1 * µs, take(on("a", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 1m0s"},
			{0, take(on("a", "10/minute fixed", 11)), "no: 0 left, never, full in 1m0s"},
			{-30 * time.Second, take(on("a", "10/minute fixed", 1)), "no: 0 left, retry in 1m30s, full in 1m30s"},
			{89_999_999 * µs, adjust(on("a", "10/minute fixed", 5)), "yes: took 5, -5 left, full in 1µs"},
			{1 * µs, adjust(on("a", "10/minute fixed", -5)), "yes: took -5 of which 0 back, 10 left"},
			{0, adjust(on("a", "10/minute fixed", 25)), "yes: took 25, -15 left, full in 1m0s"},
			{0, adjust(on("a", "10/minute fixed", -16)), "yes: took -16, 1 left, full in 1m0s"},
			{5 * time.Minute, peek(on("a", "10/minute fixed", 10)), "yes: 10 left"},
		}},
		{name: "calendar day that has 23 hours", start: time.Date(2026, time.March, 28, 23, 0, 0, 0, time.UTC), steps: []step{
			{-1 * µs, take(on("a", "100/day Europe/Madrid", 100)), "yes: took 100, 0 left, full in 1µs"},
			{1 * µs, take(on("a", "100/day Europe/Madrid", 60)), "yes: took 60, 40 left, full in 23h0m0s"},
			{23*time.Hour - 1*µs, take(on("a", "100/day Europe/Madrid", 41)), "no: 40 left, retry in 1µs, full in 1µs"},
			{1 * µs, take(on("a", "100/day Europe/Madrid", 41)), "yes: took 41, 59 left, full in 24h0m0s"},
		}},
		{name: "calendar day that has 25 hours", start: time.Date(2026, time.October, 24, 22, 0, 0, 0, time.UTC), steps: []step{
			{0, take(on("a", "100/day Europe/Madrid", 1)), "yes: took 1, 99 left, full in 25h0m0s"},
			{2*time.Hour + 30*time.Minute, take(on("a", "100/day Europe/Madrid", 1)), "yes: took 1, 98 left, full in 22h30m0s"},
		}},
		{name: "calendar day without a midnight", start: time.Date(2026, time.September, 6, 3, 0, 0, 0, time.UTC), steps: []step{
			{0, take(on("a", "10/day America/Santiago", 10)), "yes: took 10, 0 left, full in 1h0m0s"},
			{time.Hour, take(on("a", "10/day America/Santiago", 1)), "yes: took 1, 9 left, full in 23h0m0s"},
		}},
		{name: "calendar month", start: time.Date(2028, time.February, 10, 12, 0, 0, 0, time.UTC), steps: []step{
			{0, take(on("a", "50/month UTC", 50)), "yes: took 50, 0 left, full in 468h0m0s"},
			{0, take(on("a", "50/month UTC", 1)), "no: 0 left, retry in 468h0m0s, full in 468h0m0s"},
			{468 * time.Hour, take(on("a", "50/month UTC", 1)), "yes: took 1, 49 left, full in 744h0m0s"},
		}},
		{name: "sliding window", needs: sluice.CanWindow, steps: []step{
			// Parts of one second; one leaves when 32 more have begun and ended.
			{0, take(on("a", "32/32s sliding", 10)), "yes: took 10, 22 left, full in 32.5995s"},
			{time.Second, take(on("a", "32/32s sliding", 22)), "yes: took 22, 0 left, full in 32.5995s"},
			{0, take(on("a", "32/32s sliding", 1)), "no: 0 left, retry in 31.5995s, full in 32.5995s"},
			{31_599_499 * µs, take(on("a", "32/32s sliding", 10)), "no: 0 left, retry in 1µs, full in 1.000001s"},
			{1 * µs, take(on("a", "32/32s sliding", 10)), "yes: took 10, 0 left, full in 33s"},
			{0, take(on("a", "32/32s sliding", 11)), "no: 0 left, retry in 1s, full in 33s"},
			{0, take(on("a", "32/32s sliding", 33)), "no: 0 left, never, full in 33s"},
			{0, adjust(on("a", "32/32s sliding", -10)), "yes: took -10, 10 left, full in 1s"},
			{-time.Hour, take(on("a", "32/32s sliding", 11)), "no: 10 left, retry in 1h0m1s, full in 1h0m1s"},
			{time.Hour + 999_999*µs, take(on("a", "32/32s sliding", 11)), "no: 10 left, retry in 1µs, full in 1µs"},
			{1 * µs, adjust(on("a", "32/32s sliding", 40)), "yes: took 40, -8 left, full in 33s"},
			{time.Hour, take(on("a", "32/32s sliding", 32)), "yes: took 32, 0 left, full in 33s"},
		}},
		{name: "sliding window whose parts are no whole microseconds", needs: sluice.CanWindow, start: time.Unix(1_800_000_000, 0), steps: []step{
			// Parts begin at 0, 32, 63, 94, 125 … 969 and 1000 µs.
			{0, take(on("a", "4/1ms sliding", 1)), "yes: took 1, 3 left, full in 1.032ms"},
			{31 * µs, take(on("a", "4/1ms sliding", 1)), "yes: took 1, 2 left, full in 1.001ms"},
			{1 * µs, take(on("a", "4/1ms sliding", 2)), "yes: took 2, 0 left, full in 1.031ms"},
			{999 * µs, take(on("a", "4/1ms sliding", 1)), "no: 0 left, retry in 1µs, full in 32µs"},
			{1 * µs, take(on("a", "4/1ms sliding", 2)), "yes: took 2, 0 left, full in 1.031ms"},
		}},
		{name: "concurrency", needs: sluice.CanLease, steps: []step{
			{0, peek(on("c", "2 concurrent", 2)), "yes: 2 left"},
			{0, lease("x", 10*time.Second, on("c", "2 concurrent", 1)), "yes: took 1, 1 left, full in 10s"},
			{0, lease("y", 4*time.Second, on("c", "2 concurrent", 1)), "yes: took 1, 0 left, full in 10s"},
			{0, lease("z", 10*time.Second, on("c", "2 concurrent", 1)), "no: 0 left, retry in 1s, in 4s at the latest, full in 10s"},
			{0, lease("z", 10*time.Second, on("c", "2 concurrent", 2)), "no: 0 left, retry in 1s, in 10s at the latest, full in 10s"},
			{0, lease("z", 10*time.Second, on("c", "2 concurrent", 3)), "no: 0 left, never, full in 10s"},
			{4*time.Second - 1*µs, lease("z", 10*time.Second, on("c", "2 concurrent", 1)), "no: 0 left, retry in 1µs, full in 6.000001s"},
			{1 * µs, lease("z", 10*time.Second, on("c", "2 concurrent", 1)), "yes: took 1, 0 left, full in 10s"},
			{0, commit("y"), "error: lease is closed or unknown"},
			{0, release("x"), "yes: took -1, 1 left, full in 10s"},
			{0, release("x"), "yes: 1 left, full in 10s"},
			{0, commit("x"), "error: lease is closed or unknown"},
			{0, renew("z", 20*time.Second), "yes: 1 left, full in 20s"},
			{20*time.Second - 1*µs, lease("w", time.Second, on("c", "2 concurrent", 2)), "no: 1 left, retry in 1µs, full in 1µs"},
			{1 * µs, lease("w", time.Second, on("c", "2 concurrent", 2)), "yes: took 2, 0 left, full in 1s"},
			{0, commit("w"), "yes: 2 left"},
			{0, lease("v", time.Second, on("c", "2 concurrent", 2)), "yes: took 2, 0 left, full in 1s"},
			{0, reset("c"), "done"},
			{0, release("v"), "yes: 2 left"},
		}},
		{name: "concurrency: the clock goes back", needs: sluice.CanLease, steps: []step{
			{0, lease("x", time.Hour, on("c", "2 concurrent", 1)), "yes: took 1, 1 left, full in 1h0m0s"},
			{-30 * time.Minute, lease("y", 10*time.Second, on("c", "2 concurrent", 1)), "yes: took 1, 0 left, full in 1h30m0s"},
			{0, lease("z", 10*time.Second, on("c", "2 concurrent", 1)), "no: 0 left, retry in 1s, in 30m10s at the latest, full in 1h30m0s"},
			{30 * time.Minute, lease("z", 10*time.Second, on("c", "2 concurrent", 1)), "no: 0 left, retry in 1s, in 10s at the latest, full in 1h0m0s"},
			{10*time.Second - 1*µs, commit("y"), "yes: 1 left, full in 59m50.000001s"},
		}},
		{name: "concurrency: changed together with tokens", needs: sluice.CanLease, steps: []step{
			{0, lease("x", time.Minute, on("c", "1 concurrent", 1), on("a", tenPer, 5)),
				"yes: took 1, 0 left, full in 1m0s | took 5, 15 left, full in 500ms"},
			{0, lease("y", time.Minute, on("c", "1 concurrent", 1), on("a", tenPer, 5)),
				"no: 0 left, retry in 1s, in 1m0s at the latest, full in 1m0s | 15 left, full in 500ms"},
			{0, setCost("x", costs{"c": 2, "a": 1}), "error"},
			{0, setCost("x", costs{"c": 1, "a": 3}), "yes: 0 left, full in 1m0s | took -2, 17 left, full in 300ms"},
			{0, commit("x"), "yes: 1 left | 17 left, full in 300ms"},
			{0, lease("y", time.Minute, on("c", "1 concurrent", 1), on("a", tenPer, 18)),
				"no: 1 left | 17 left, retry in 100ms, full in 300ms"},
			{0, lease("y", time.Minute, on("c", "1 concurrent", 1), on("a", tenPer, 17)),
				"yes: took 1, 0 left, full in 1m0s | took 17, 0 left, full in 2s"},
			{0, release("y"), "yes: took -1, 1 left | took -17, 17 left, full in 300ms"},
		}},
	})
}
