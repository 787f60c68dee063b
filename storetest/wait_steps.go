package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

// waitSteps are what tickets do: whoever waits is served in order of rank, and
// costs nobody anything until then.
func waitSteps() []Check {
	return checks([]scenario{
		{name: "ticket: served in order of rank", needs: sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 10*time.Second, on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{0, wait(2, 11*time.Second, on("a", tenPer, 3)), "no: 0 left, retry in 400ms, full in 2s"},
			{0, wait(3, 0, on("a", tenPer, 2)), "no: 0 left, retry in 200ms, full in 2s"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 700ms, full in 2s"},
			{0, list(), "a 10/s burst 20: 0 left, 3 in line, 20 consumed, full in 2s"},
			{200 * ms, wait(1, 0, on("a", tenPer, 1)), "no: 2 left, retry in 100ms, for what is held, full in 1.8s"},
			{0, peek(on("a", tenPer, 1)), "no: 2 left, retry in 500ms, for what is held, full in 1.8s"},
			{0, wait(3, 0, on("a", tenPer, 2)), "yes: took 2, 0 left, full in 2s"},
			{400 * ms, wait(2, 0, on("a", tenPer, 3)), "yes: took 3, 1 left, full in 1.9s"},
			{0, take(on("a", tenPer, 1)), "no: 1 left, retry in 100ms, for what is held, full in 1.9s"},
			{0, wait(1, 0, on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{0, list(), "a 10/s burst 20: 0 left, 26 consumed, full in 2s"},
		}},
		{name: "ticket: who gives up costs nobody anything", needs: sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 20)), "no: 0 left, retry in 2s, full in 2s"},
			{0, wait(2, time.Second, on("a", tenPer, 1)), "no: 0 left, retry in 2.1s, full in 2s"},
			{100 * ms, leave(ticketID(1), on("a", tenPer, 0)), "done"},
			{0, leave(ticketID(1), on("b", tenPer, 0)), "done"},
			{0, wait(2, time.Second, on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{100 * ms, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
		}},
		{name: "ticket: one for each node, which decides who is first", needs: sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 5)), "no: 0 left, retry in 500ms, full in 2s"},
			{0, decide(sluice.Take{Ticket: sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 2}, Rank: time.Second}}, []need{on("a", tenPer, 1)}),
				"no: 0 left, retry in 100ms, full in 2s"},
			{0, list(), "a 10/s burst 20: 0 left, 1 in line, 20 consumed, full in 2s"},
			{0, wait(2, 999*ms, on("a", tenPer, 3)), "no: 0 left, retry in 300ms, full in 2s"},
			{0, leave(ticketID(1), on("a", tenPer, 0)), "done"}, // it has none any more
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 500ms, full in 2s"},
			{0, leave(sluice.HoldID{Node: 1, Seq: 2}, on("a", tenPer, 0)), "done"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 400ms, full in 2s"},
		}},
		{name: "ticket: it lapses, and keeps its place if renewed", steps: []step{
			{0, take(on("a", "1/minute burst 2", 2)), "yes: took 2, 0 left, full in 2m0s"},
			{0, wait(1, 0, on("a", "1/minute burst 2", 1)), "no: 0 left, retry in 1m0s, full in 2m0s"},
			{3 * time.Second, wait(2, -2*time.Second, on("a", "1/minute burst 2", 1)), "no: 0.05 left, retry in 1m57s, full in 1m57s"},
			{0, wait(1, time.Hour, on("a", "1/minute burst 2", 1)), "no: 0.05 left, retry in 57s, full in 1m57s"},
			{5*time.Second - 1*µs, take(on("a", "1/minute burst 2", 1)), "no: 0.133 left, retry in 2m52.000001s, full in 1m52.000001s"},
			{1 * µs, take(on("a", "1/minute burst 2", 1)), "no: 0.133 left, retry in 52s, full in 1m52s"},
		}},
		{name: "ticket: only where it has to wait", needs: sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 1), on("b", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s | 20 left"},
			{0, take(on("b", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 1), on("b", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s | 0 left, retry in 100ms, full in 2s"},
			{0, list(), "a 10/s burst 20: 0 left, 1 in line, 20 consumed, full in 2s; b 10/s burst 20: 0 left, 1 in line, 20 consumed, full in 2s"},
			{0, adjust(on("b", tenPer, -5)), "yes: took -5, 5 left, full in 1.5s"},
			{0, wait(1, 0, on("a", tenPer, 1), on("b", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s | 5 left, full in 1.5s"},
			{0, take(on("b", tenPer, 5)), "yes: took 5, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 21), on("b", tenPer, 1)), "no: 0 left, never, full in 2s | 0 left, retry in 100ms, full in 2s"},
			{100 * ms, take(on("a", tenPer, 1), on("b", tenPer, 1)), "yes: took 1, 0 left, full in 2s | took 1, 0 left, full in 2s"},
		}},
		{name: "ticket: windows and shadows", steps: []step{
			{0, take(on("f", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 29.5995s"},
			{25 * time.Second, wait(1, 0, on("f", "10/minute fixed", 8)), "no: 0 left, retry in 4.5995s, full in 4.5995s"},
			{4_800 * ms, take(on("f", "10/minute fixed", 3)), "no: 10 left, retry in 200ms, for what is held"},
			{0, take(on("f", "10/minute fixed", 3).shadowed()), "yes: 10 left, retry in 200ms, for what is held"},
			{0, upTo(on("f", "10/minute fixed", 5)), "yes: took 2, 8 left, full in 59.7995s"},
			{0, wait(1, 0, on("f", "10/minute fixed", 8)), "yes: took 8, 0 left, full in 59.7995s"},
		}},
		{name: "ticket: sliding windows", needs: sluice.CanWindow, steps: []step{
			{0, take(on("s", "10/32s sliding", 10)), "yes: took 10, 0 left, full in 32.5995s"},
			{30 * time.Second, wait(1, 0, on("s", "10/32s sliding", 8)), "no: 0 left, retry in 2.5995s, full in 2.5995s"},
			{2_600 * ms, take(on("s", "10/32s sliding", 3)), "no: 10 left, retry in 2.4s, for what is held"},
			{0, take(on("s", "10/32s sliding", 2)), "yes: took 2, 8 left, full in 32.9995s"},
			{0, wait(1, 0, on("s", "10/32s sliding", 8)), "yes: took 8, 0 left, full in 32.9995s"},
		}},
		{name: "ticket: a place in flight", needs: sluice.CanLease, steps: []step{
			{0, lease("x", 10*time.Minute, on("c", "1 concurrent", 1)), "yes: took 1, 0 left, full in 10m0s"},
			{0, decide(sluice.Take{ID: "y", Lease: true, Keep: time.Minute, Ticket: sluice.Ticket{ID: ticketID(1)}}, []need{on("c", "1 concurrent", 1)}),
				"no: 0 left, retry in 1s, in 10m0s at the latest, full in 10m0s"},
			{time.Second, release("x"), "yes: took -1, 1 left"},
			{0, lease("z", time.Minute, on("c", "1 concurrent", 1)), "no: 1 left, retry in 1s, in 4s at the latest, for what is held"},
			{0, decide(sluice.Take{ID: "y", Lease: true, Keep: time.Minute, Ticket: sluice.Ticket{ID: ticketID(1)}}, []need{on("c", "1 concurrent", 1)}),
				"yes: took 1, 0 left, full in 1m0s"},
		}},
		{name: "ticket: nothing is held ahead meanwhile", needs: sluice.CanHold | sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 10)), "no: 0 left, retry in 1s, full in 2s"},
			{500 * ms, hold(1, time.Second, on("a", tenPer, 1), 1), "nothing, 5 left, 5 free, retry in 4.5s, recalled, for what is held"},
			{0, wait(1, 0, on("a", tenPer, 5)), "yes: took 5, 0 left, full in 2s"},
			{100 * ms, hold(2, time.Second, on("a", tenPer, 1), 1), "held 1 for 1s, 1 left, 0 free"},
		}},
		{name: "ticket: it outlives a reset and another limit", needs: sluice.CanList, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, wait(1, 0, on("a", tenPer, 10)), "no: 0 left, retry in 1s, full in 2s"},
			{0, reset("a"), "done"},
			{0, take(on("a", "10/s burst 12", 3)), "no: 12 left, retry in 100ms, for what is held"},
			{0, take(on("a", "10/minute fixed", 1)), "no: 10 left, retry in 5s, for what is held"},
			{0, take(on("a", "10/s burst 12", 2)), "yes: took 2, 10 left, full in 200ms"},
			{0, list(), "a 10/s burst 12: 10 left, 1 in line, 2 consumed, full in 200ms"},
		}},
	})
}
