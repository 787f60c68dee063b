package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

func takeSteps() []Check {
	return checks([]scenario{
		{name: "several limits: all or nothing", steps: []step{
			{0, take(on("rpm", "60/minute", 1), on("tpm", "1000/minute", 400)),
				"yes: took 1, 59 left, full in 1s | took 400, 600 left, full in 24s"},
			{0, take(on("rpm", "60/minute", 1), on("tpm", "1000/minute", 700)),
				"no: 59 left, full in 1s | 600 left, retry in 6s, full in 24s"},
			{0, take(on("tpm", "1000/minute", 600), on("rpm", "60/minute", 60)),
				"no: 600 left, full in 24s | 59 left, retry in 1s, full in 1s"},
			{0, take(on("rpm", "60/minute", 60), on("tpm", "1000/minute", 1001), on("new", tenPer, 1)),
				"no: 59 left, retry in 1s, full in 1s | 600 left, never, full in 24s | 20 left"},
			{0, take(on("rpm", "60/minute", 59), on("tpm", "1000/minute", 600), on("new", tenPer, 20)),
				"yes: took 59, 0 left, full in 1m0s | took 600, 0 left, full in 1m0s | took 20, 0 left, full in 2s"},
		}},
		{name: "shadow", steps: []step{
			{0, take(on("a", tenPer, 1), on("s", "1/minute", 1).shadowed()),
				"yes: took 1, 19 left, full in 100ms | took 1, 0 left, full in 1m0s"},
			{0, take(on("a", tenPer, 1), on("s", "1/minute", 1).shadowed()),
				"yes: took 1, 18 left, full in 200ms | 0 left, retry in 1m0s, full in 1m0s"},
			{0, take(on("s", "1/minute", 2).shadowed()), "yes: 0 left, never, full in 1m0s"},
			{0, take(on("a", tenPer, 21), on("t", "1/minute", 1).shadowed()), "no: 18 left, never, full in 200ms | 1 left"},
			{0, take(on("s", "1/minute", 1)), "no: 0 left, retry in 1m0s, full in 1m0s"},
		}},
		{name: "count refused", steps: []step{
			{0, take(on("f", "3/minute fixed", 2).counting()), "yes: took 2, 1 left, full in 29.5995s"},
			{0, peek(on("f", "3/minute fixed", 2).counting()), "no: 1 left, retry in 29.5995s, full in 29.5995s"},
			{0, take(on("f", "3/minute fixed", 2).counting()), "no: took 2, -1 left, retry in 29.5995s, full in 29.5995s"},
			{0, take(on("f", "3/minute fixed", 1), on("g", "3/minute fixed", 1).counting(), on("h", tenPer, 1)),
				"no: -1 left, retry in 29.5995s, full in 29.5995s | took 1, 2 left, full in 29.5995s | 20 left"},
			// In a bucket that refills, counting makes the wait longer.
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("a", tenPer, 1).counting()), "no: took 1, -1 left, retry in 200ms, full in 2.1s"},
			{0, take(on("a", tenPer, 1).counting().shadowed()), "yes: -1 left, retry in 200ms, full in 2.1s"},
		}},
		{name: "count refused means nothing to concurrency", needs: sluice.CanLease, steps: []step{
			{0, lease("x", time.Minute, on("c", "1 concurrent", 1)), "yes: took 1, 0 left, full in 1m0s"},
			{0, lease("y", time.Minute, on("c", "1 concurrent", 1).counting()), "no: 0 left, retry in 1s, in 1m0s at the latest, full in 1m0s"},
			{0, release("x"), "yes: took -1, 1 left"},
		}},
		{name: "up to", steps: []step{
			{0, upTo(on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, upTo(on("a", tenPer, 100)), "yes: took 15, 0 left, full in 2s"},
			{0, upTo(on("a", tenPer, 5)), "no: 0 left, retry in 100ms, full in 2s"},
			{290 * ms, upTo(on("a", tenPer, 5)), "yes: took 2, 0.9 left, full in 1.91s"},
			{10 * ms, upTo(on("a", tenPer, 0.5)), "yes: took 0.5, 0.5 left, full in 1.95s"},
			{0, upTo(on("a", tenPer, 0.7)), "no: 0.5 left, retry in 20ms, full in 1.95s"},
			{0, upTo(on("a", tenPer, 7)), "no: 0.5 left, retry in 50ms, full in 1.95s"},
			{time.Minute, upTo(on("a", tenPer, 10), on("b", "3/s", 10)),
				"yes: took 3, 17 left, full in 300ms | took 3, 0 left, full in 1s"},
			{0, upTo(on("a", tenPer, 10), on("b", "3/s", 10)),
				"no: 17 left, full in 300ms | 0 left, retry in 333.334ms, full in 1s"},
			{0, upTo(on("a", tenPer, 5), on("s", "2/s", 5).shadowed()),
				"yes: took 5, 12 left, full in 800ms | 2 left, never"},
			{0, upTo(on("a", tenPer, 2), on("s", "2/s", 2).shadowed()),
				"yes: took 2, 10 left, full in 1s | took 2, 0 left, full in 1s"},
			{0, upTo(on("half", "0.5/s", 1)), "no: 0.5 left, never"},
			{0, adjust(on("a", tenPer, 30)), "yes: took 30, -20 left, full in 4s"},
			{0, upTo(on("a", tenPer, 5)), "no: -20 left, retry in 2.1s, full in 4s"},
		}},
		{name: "peek", steps: []step{
			{0, peek(on("a", tenPer, 5)), "yes: 20 left"},
			{0, peek(on("a", tenPer, 21)), "no: 20 left, never"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, peek(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{0, peek(on("a", "100/s burst 100", 50)), "yes: 80 left, full in 200ms"},
			{0, peek(on("a", tenPer, 1), on("b", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s | 20 left"},
			{0, decide(sluice.Take{Peek: true, UpTo: true}, []need{on("b", tenPer, 30)}), "yes: 20 left"},
			{100 * ms, peek(on("a", tenPer, 1)), "yes: 1 left, full in 1.9s"},
			{0, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
		}},
		{name: "request id", needs: sluice.CanLease, steps: []step{
			{0, once("r", 10*time.Second, on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{100 * ms, once("r", 10*time.Second, on("a", tenPer, 5)), "again yes: took 5, 15 left, full in 500ms"},
			{0, once("r", 10*time.Second, on("a", tenPer, 4)), "error: request id was used for a different take"},
			{0, once("r", 10*time.Second, on("b", tenPer, 5)), "error: request id was used for a different take"},
			{0, once("r", 10*time.Second, on("a", "10/s burst 21", 5)), "error: request id was used for a different take"},
			{0, once("r", 10*time.Second, on("a", tenPer, 5).shadowed()), "error: request id was used for a different take"},
			{0, once("r", 10*time.Second, on("a", tenPer, 5).counting()), "error: request id was used for a different take"},
			{0, once("r", 10*time.Second, on("a", tenPer, 5), on("b", tenPer, 5)), "error: request id was used for a different take"},
			{0, lease("r", 10*time.Second, on("a", tenPer, 5)), "error: request id was used for a different take"},
			{0, decide(sluice.Take{ID: "r", UpTo: true}, []need{on("a", tenPer, 5)}), "error: request id was used for a different take"},
			{0, decide(sluice.Take{ID: "r", Peek: true}, []need{on("a", tenPer, 1)}), "yes: 16 left, full in 400ms"},
			{9_900*ms - 1*µs, once("r", time.Second, on("a", tenPer, 5)), "again yes: took 5, 15 left, full in 500ms"},
			{1 * µs, once("r", time.Second, on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, once("default", 0, on("b", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{time.Minute - 1*µs, once("default", 0, on("b", tenPer, 5)), "again yes: took 5, 15 left, full in 500ms"},
			{1 * µs, once("default", 0, on("b", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
		}},
		{name: "request id: a refusal is not remembered unless it counted", needs: sluice.CanLease, steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, once("r", time.Minute, on("a", tenPer, 5)), "no: 0 left, retry in 500ms, full in 2s"},
			{500 * ms, once("r", time.Minute, on("a", tenPer, 5)), "yes: took 5, 0 left, full in 2s"},
			{0, once("q", time.Minute, on("a", tenPer, 5), on("b", "1/minute", 2).counting()),
				"no: 0 left, retry in 500ms, full in 2s | took 2, -1 left, never, full in 2m0s"},
			{500 * ms, once("q", time.Minute, on("a", tenPer, 5), on("b", "1/minute", 2).counting()),
				"again no: 0 left, retry in 500ms, full in 2s | took 2, -1 left, never, full in 2m0s"},
			{0, once("s", time.Minute, on("c", "1/minute", 2).shadowed()), "yes: 1 left, never"},
			{0, once("s", time.Minute, on("c", "1/minute", 2).shadowed()), "again yes: 1 left, never"},
		}},
	})
}
