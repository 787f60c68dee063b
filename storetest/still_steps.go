package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

// stillSteps are operations that leave something in a bucket but must not move
// its time, which a clock that is then put back shows; and what is left there
// when nothing else is.
func stillSteps() []Check {
	return checks([]scenario{
		{name: "hold: a recall leaves the bucket's time alone", needs: sluice.CanHold, steps: []step{
			{0, hold(1, 10*time.Second, on("a", tenPer, 8), 0), "held 8 for 10s, 20 left, 12 free"},
			{0, take(on("a", tenPer, 10)), "yes: took 10, 10 left, 2 free, full in 1s"},
			{500 * ms, take(on("a", tenPer, 13)), "no: 15 left, 7 free, retry in 9.6s, for what is held, full in 500ms"},
			{-300 * ms, peek(on("a", tenPer, 12)), "no: 12 left, 4 free, retry in 800ms, for what is held, full in 800ms"},
			{0, hold(2, 10*time.Second, on("a", tenPer, 1), 0), "nothing, 12 left, 4 free, retry in 9.9s, recalled"},
		}},
		{name: "lease: ending one that has no place any more leaves the bucket's time alone", needs: sluice.CanLease, steps: []step{
			{0, lease("x", time.Hour, on("c", "2 concurrent", 1)), "yes: took 1, 1 left, full in 1h0m0s"},
			{0, reset("c"), "done"},
			{0, lease("y", time.Hour, on("c", "2 concurrent", 1)), "yes: took 1, 1 left, full in 1h0m0s"},
			{500 * ms, renew("x", time.Minute), "yes: 1 left, full in 59m59.5s"},
			{-100 * ms, commit("x"), "yes: 1 left, full in 59m59.6s"},
			{-100 * ms, peek(on("c", "2 concurrent", 2)), "no: 1 left, retry in 1s, in 59m59.7s at the latest, full in 59m59.7s"},
		}},
		{name: "ticket: a calendar day ends while somebody waits", start: time.Date(2026, 3, 11, 23, 59, 58, 0, time.UTC), steps: []step{
			{0, take(on("d", "3/day UTC", 3)), "yes: took 3, 0 left, full in 2s"},
			{0, wait(1, 0, on("d", "3/day UTC", 2)), "no: 0 left, retry in 2s, full in 2s"},
			{0, wait(2, time.Second, on("d", "3/day UTC", 1)), "no: 0 left, retry in 2s, full in 2s"},
			{2500 * ms, take(on("d", "3/day UTC", 1)), "no: 3 left, retry in 2.5s, for what is held"},
			{0, reset("d"), "done"},
			{0, take(on("d", "3/day UTC", 1)), "no: 3 left, retry in 2.5s, for what is held"},
			{0, leave(ticketID(2), on("d", "3/day UTC", 0)), "done"},
			{0, take(on("d", "3/day UTC", 1)), "yes: took 1, 2 left, full in 23h59m59.5s"},
			{0, wait(1, 0, on("d", "3/day UTC", 2)), "yes: took 2, 0 left, full in 23h59m59.5s"},
		}},
	})
}
