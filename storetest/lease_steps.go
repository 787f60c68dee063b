package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

func leaseSteps() []Check {
	const closed = "error: lease is closed or unknown"
	scenarios := []scenario{
		{name: "lease: adjust and commit", steps: []step{
			{0, lease("x", time.Minute, on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, setCost("x", costs{"a": 2}), "yes: took -3, 18 left, full in 200ms"},
			{0, setCost("x", costs{"a": 2}), "yes: 18 left, full in 200ms"},
			{0, setCost("x", costs{"a": 30}), "yes: took 28, -10 left, full in 3s"},
			{0, setCost("x", costs{"b": 1}), "error"},
			{0, setCost("x", costs{"a": 1, "b": 1}), "error"},
			{0, peek(on("a", tenPer, 1)), "no: -10 left, retry in 1.1s, full in 3s"},
			{0, setCost("x", costs{"a": 12}), "yes: took -18, 8 left, full in 1.2s"},
			{0, commit("x"), "yes: 8 left, full in 1.2s"},
			{0, commit("x"), "yes: 8 left, full in 1.2s"},
			{0, settle("x", sluice.Commit, costs{"a": 1}), "yes: 8 left, full in 1.2s"},
			{0, setCost("x", costs{"a": 1}), closed},
			{0, renew("x", time.Minute), closed},
			{0, release("x"), closed},
			{0, lease("y", time.Minute, on("a", tenPer, 5)), "yes: took 5, 3 left, full in 1.7s"},
			{0, settle("y", sluice.Commit, costs{"a": 7}), "yes: took 2, 1 left, full in 1.9s"},
			{0, lease("z", time.Minute, on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{0, setCost("z", costs{"a": 0}), "yes: took -1, 1 left, full in 1.9s"},
			{0, setCost("z", costs{"a": 3}), "yes: took 3, -2 left, full in 2.2s"},
			{0, release("z"), "yes: took -3, 1 left, full in 1.9s"},
		}},
		{name: "lease: release", steps: []step{
			{0, lease("x", time.Minute, on("a", tenPer, 5), on("b", "60/minute", 10)),
				"yes: took 5, 15 left, full in 500ms | took 10, 50 left, full in 10s"},
			{0, take(on("a", tenPer, 1), on("b", "60/minute", 1)),
				"yes: took 1, 14 left, full in 600ms | took 1, 49 left, full in 11s"},
			{0, release("x"), "yes: took -5, 19 left, full in 100ms | took -10, 59 left, full in 1s"},
			{0, release("x"), "yes: 19 left, full in 100ms | 59 left, full in 1s"},
			{0, commit("x"), closed},
			{0, setCost("x", costs{"a": 1}), closed},
			{0, lease("y", time.Minute, on("a", tenPer, 10)), "yes: took 10, 9 left, full in 1.1s"},
			// Refill has given half of it back already.
			{600 * ms, release("y"), "yes: took -10 of which 5 back, 20 left"},
			{0, release("y"), "yes: 20 left"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
		}},
		{name: "lease: saying a cost twice is saying it once", steps: []step{
			{0, lease("x", time.Hour, on("a", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{time.Minute, setCost("x", costs{"a": 0}), "yes: took -10 of which 0 back, 20 left"},
			{0, take(on("a", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{0, setCost("x", costs{"a": 0}), "yes: 10 left, full in 1s"},
			{0, release("x"), "yes: 10 left, full in 1s"},
		}},
		{name: "lease: renewed and expired", steps: []step{
			{0, lease("x", time.Second, on("a", "60/hour", 5)), "yes: took 5, 55 left, full in 5m0s"},
			{time.Second - 1*µs, renew("x", 2*time.Second), "yes: 55.016 left, full in 4m59.000001s"},
			{2*time.Second - 1*µs, setCost("x", costs{"a": 4}), "yes: took -1, 56.049 left, full in 3m57.000002s"},
			{1 * µs, commit("x"), closed},
			{0, release("x"), closed},
			{0, setCost("x", costs{"a": 1}), closed},
			{0, renew("x", time.Minute), closed},
			{0, peek(on("a", "60/hour", 1)), "yes: 56.049 left, full in 3m57.000001s"},
			{57*time.Second + 1*µs, lease("x", time.Second, on("a", "60/hour", 7)), "yes: took 7, 50 left, full in 10m0s"},
			{0, renew("x", 500*ms), "yes: 50 left, full in 10m0s"},
			{500 * ms, commit("x"), closed},
		}},
		{name: "lease: a committed one still answers repeated takes", steps: []step{
			{0, lease("x", time.Minute, on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, setCost("x", costs{"a": 9}), "yes: took 4, 11 left, full in 900ms"},
			{0, lease("x", time.Minute, on("a", tenPer, 5)), "again yes: took 5, 15 left, full in 500ms"},
			{0, commit("x"), "yes: 11 left, full in 900ms"},
			{0, lease("x", time.Minute, on("a", tenPer, 5)), "again yes: took 5, 15 left, full in 500ms"},
			{0, peek(on("a", tenPer, 11)), "yes: 11 left, full in 900ms"},
			{0, lease("x", time.Minute, on("a", tenPer, 6)), "error: request id was used for a different take"},
			{time.Minute, lease("x", time.Minute, on("a", tenPer, 6)), "yes: took 6, 14 left, full in 600ms"},
		}},
		{name: "lease: a released one is as if it had never been", steps: []step{
			{0, lease("x", time.Minute, on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, release("x"), "yes: took -5, 20 left"},
			{0, release("x"), "yes: 20 left"},
			{0, lease("x", time.Minute, on("a", tenPer, 6)), "yes: took 6, 14 left, full in 600ms"},
			{0, lease("x", time.Minute, on("a", tenPer, 6)), "again yes: took 6, 14 left, full in 600ms"},
			{0, release("x"), "yes: took -6, 20 left"},
		}},
		{name: "lease: what is none", steps: []step{
			{0, commit("nobody's"), closed},
			{0, once("r", time.Minute, on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, commit("r"), closed},
			{0, release("r"), closed},
			{0, lease("x", time.Minute, on("a", tenPer, 16).counting()), "no: took 16, -1 left, retry in 1.7s, full in 2.1s"},
			{0, release("x"), closed},
			{0, lease("y", time.Minute, on("a", tenPer, 1)), "no: -1 left, retry in 200ms, full in 2.1s"},
			{0, commit("y"), closed},
			{0, decide(sluice.Take{ID: "z", Lease: true, Peek: true}, []need{on("b", tenPer, 1)}), "error"},
			{0, commit("z"), closed},
			{0, list(), "a 10/s burst 20: -1 left, 21 consumed, full in 2.1s"},
		}, needs: sluice.CanList},
		{name: "lease: a window that is over gives nothing back", steps: []step{
			{0, lease("x", time.Hour, on("f", "10/minute fixed", 5)), "yes: took 5, 5 left, full in 29.5995s"},
			{0, setCost("x", costs{"f": 4}), "yes: took -1, 6 left, full in 29.5995s"},
			{30 * time.Second, take(on("f", "10/minute fixed", 3)), "yes: took 3, 7 left, full in 59.5995s"},
			{0, setCost("x", costs{"f": 6}), "yes: took 2, 5 left, full in 59.5995s"},
			{0, release("x"), "yes: took -6 of which 0 back, 5 left, full in 59.5995s"},
		}},
		{name: "lease: a part of a sliding window that is over gives nothing back", needs: sluice.CanWindow, steps: []step{
			{0, lease("x", time.Hour, on("w", "32/32s sliding", 5)), "yes: took 5, 27 left, full in 32.5995s"},
			{0, lease("y", time.Hour, on("w", "32/32s sliding", 5)), "yes: took 5, 22 left, full in 32.5995s"},
			{20 * time.Second, take(on("w", "32/32s sliding", 10)), "yes: took 10, 12 left, full in 32.5995s"},
			{12_599_499 * µs, release("x"), "yes: took -5, 17 left, full in 20.000001s"},
			{1 * µs, release("y"), "yes: took -5 of which 0 back, 27 left, full in 20s"},
		}},
		{name: "lease: the limit has changed since", steps: []step{
			{0, lease("x", time.Hour, on("a", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{0, take(on("a", "10/s burst 50", 1)), "yes: took 1, 39 left, full in 1.1s"},
			{0, setCost("x", costs{"a": 20}), "yes: took 10, 29 left, full in 2.1s"},
			{0, release("x"), "yes: took -20, 49 left, full in 100ms"},
			{0, lease("y", time.Hour, on("a", tenPer, 10)), "yes: took 10, 9 left, full in 1.1s"},
			{0, take(on("a", "30/minute fixed", 1)), "yes: took 1, 18 left, full in 29.5995s"},
			{0, release("y"), "yes: took -10, 28 left, full in 29.5995s"},
			// Full means absent: then the lease's own limit is the bucket's.
			{0, lease("z", time.Hour, on("b", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{0, take(on("b", "10/s burst 50", 1)), "yes: took 1, 39 left, full in 1.1s"},
			{time.Minute, setCost("z", costs{"b": 11}), "yes: took 1, 19 left, full in 100ms"},
		}},
		{name: "lease: became concurrency since", steps: []step{
			{0, lease("x", time.Hour, on("a", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{0, lease("y", time.Minute, on("a", "2 concurrent", 1)), "yes: took 1, 1 left, full in 1m0s"},
			{0, setCost("x", costs{"a": 20}), "yes: took 10, 1 left, full in 1m0s"},
			{0, release("x"), "yes: took -20 of which 0 back, 1 left, full in 1m0s"},
			{0, lease("z", time.Minute, on("a", "2 concurrent", 2)), "no: 1 left, retry in 1s, in 1m0s at the latest, full in 1m0s"},
			{0, release("y"), "yes: took -1, 2 left"},
		}},
		{name: "lease: the bucket was reset", steps: []step{
			{0, lease("x", time.Hour, on("a", tenPer, 10)), "yes: took 10, 10 left, full in 1s"},
			{0, reset("a"), "done"},
			{0, release("x"), "yes: took -10 of which 0 back, 20 left"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
		}},
		{name: "lease: a shadow that did not fit", steps: []step{
			{0, lease("x", time.Hour, on("a", tenPer, 1), on("s", "1/minute", 2).shadowed()),
				"yes: took 1, 19 left, full in 100ms | 1 left, never"},
			{0, setCost("x", costs{"s": 5}), "yes: 19 left, full in 100ms | 1 left"},
			{0, release("x"), "yes: took -1, 20 left | 1 left"},
		}},
		{name: "lease: a cost is in every bucket of that limit", steps: []step{
			{0, lease("x", time.Hour, on("alice/a", tenPer, 5), on("team/a", "10/s burst 100", 5), on("team/b", tenPer, 5)),
				"yes: took 5, 15 left, full in 500ms | took 5, 95 left, full in 500ms | took 5, 15 left, full in 500ms"},
			{0, settle("x", sluice.Commit, costs{"a": 3}),
				"yes: took -2, 17 left, full in 300ms | took -2, 97 left, full in 300ms | 15 left, full in 500ms"},
		}},
		{name: "lease: up to", steps: []step{
			{0, decide(sluice.Take{ID: "x", Lease: true, UpTo: true}, []need{on("a", tenPer, 100)}), "yes: took 20, 0 left, full in 2s"},
			{0, setCost("x", costs{"a": 5}), "yes: took -15, 15 left, full in 500ms"},
			{0, release("x"), "yes: took -5, 20 left"},
		}},
	}
	for i := range scenarios {
		scenarios[i].needs |= sluice.CanLease
	}
	return checks(scenarios)
}
