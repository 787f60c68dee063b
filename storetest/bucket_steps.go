package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

// tenPer is the limit of most examples: a millitoken comes back every 100 µs.
const tenPer = "10/s burst 20"

const (
	ms = time.Millisecond
	µs = time.Microsecond
)

func bucketSteps() []Check {
	return checks([]scenario{
		{name: "token bucket: take, refill, retry", steps: []step{
			{0, take(on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, take(on("a", tenPer, 15)), "yes: took 15, 0 left, full in 2s"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{99_999 * µs, take(on("a", tenPer, 1)), "no: 0.999 left, retry in 1µs, full in 1.900001s"},
			{1 * µs, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{500 * ms, take(on("a", tenPer, 0.5)), "yes: took 0.5, 4.5 left, full in 1.55s"},
			{10 * time.Minute, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("a", tenPer, 20.001)), "no: 0 left, never, full in 2s"},
			{time.Hour, take(on("a", tenPer, 20.001)), "no: 20 left, never"},
			{0, take(on("a", tenPer, 0)), "yes: took 1, 19 left, full in 100ms"},
			{0, take(on("b", tenPer, 1)), "yes: took 1, 19 left, full in 100ms"},
		}},
		{name: "token bucket: a rate that does not divide", steps: []step{
			{0, take(on("a", "7/3s burst 5", 5)), "yes: took 5, 0 left, full in 2.142858s"},
			{0, take(on("a", "7/3s burst 5", 1)), "no: 0 left, retry in 428.572ms, full in 2.142858s"},
			{428_571 * µs, take(on("a", "7/3s burst 5", 1)), "no: 0.999 left, retry in 1µs, full in 1.714287s"},
			{1 * µs, take(on("a", "7/3s burst 5", 1)), "yes: took 1, 0 left, full in 2.142857s"},
			{0, take(on("a", "7/3s burst 5", 1)), "no: 0 left, retry in 428.571ms, full in 2.142857s"},
		}},
		{name: "token bucket: slow and fast", steps: []step{
			{0, take(on("slow", "100/day", 100)), "yes: took 100, 0 left, full in 24h0m0s"},
			{0, take(on("fast", "1M/s burst 10", 10)), "yes: took 10, 0 left, full in 10µs"},
			{0, take(on("fast", "1M/s burst 10", 1)), "no: 0 left, retry in 1µs, full in 10µs"},
			{1 * µs, take(on("fast", "1M/s burst 10", 1)), "yes: took 1, 0 left, full in 10µs"},
			{864*time.Second - 2*µs, take(on("slow", "100/day", 1)), "no: 0.999 left, retry in 1µs, full in 23h45m36.000001s"},
			{1 * µs, take(on("slow", "100/day", 1)), "yes: took 1, 0 left, full in 24h0m0s"},
		}},
		{name: "token bucket: the clock goes back", steps: []step{
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{-time.Hour, take(on("a", tenPer, 1)), "no: 0 left, retry in 1h0m0.1s, full in 1h0m2s"},
			{30 * time.Minute, take(on("a", tenPer, 1)), "no: 0 left, retry in 30m0.1s, full in 30m2s"},
			{30 * time.Minute, take(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{100 * ms, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{-50 * ms, adjust(on("a", tenPer, 1)), "yes: took 1, -1 left, full in 2.15s"},
			{150 * ms, take(on("a", tenPer, 0.001)), "no: 0 left, retry in 100µs, full in 2s"},
		}},
		{name: "adjust: debt and refund", steps: []step{
			{0, adjust(on("a", tenPer, 50)), "yes: took 50, -30 left, full in 5s"},
			{0, take(on("a", tenPer, 1)), "no: -30 left, retry in 3.1s, full in 5s"},
			{3_099_999 * µs, take(on("a", tenPer, 1)), "no: 0.999 left, retry in 1µs, full in 1.900001s"},
			{1 * µs, take(on("a", tenPer, 1)), "yes: took 1, 0 left, full in 2s"},
			{0, adjust(on("a", tenPer, -5)), "yes: took -5, 5 left, full in 1.5s"},
			{0, adjust(on("a", tenPer, 0)), "yes: 5 left, full in 1.5s"},
			{0, adjust(on("a", tenPer, -100)), "yes: took -100 of which 15 back, 20 left"},
			{0, adjust(on("a", tenPer, -1)), "yes: took -1 of which 0 back, 20 left"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("a", tenPer, 1)), "no: 0 left, retry in 100ms, full in 2s"},
			{0, adjust(on("a", tenPer, -1), on("b", tenPer, 21)), "yes: took -1, 1 left, full in 1.9s | took 21, -1 left, full in 2.1s"},
		}},
		{name: "adjust: a debt that does not divide", steps: []step{
			{0, adjust(on("a", "7/3s burst 5", 5.001)), "yes: took 5.001, -0.001 left, full in 2.143286s"},
			{0, adjust(on("a", "7/3s burst 5", -0.002)), "yes: took -0.002, 0.001 left, full in 2.142429s"},
			{0, adjust(on("a", "7/3s burst 5", 0.003)), "yes: took 0.003, -0.002 left, full in 2.143715s"},
			{1 * µs, peek(on("a", "7/3s burst 5", 0.001)), "no: -0.002 left, retry in 1.285ms, full in 2.143714s"},
			{428 * µs, peek(on("a", "7/3s burst 5", 0.001)), "no: -0.001 left, retry in 857µs, full in 2.143286s"},
		}},
		{name: "adjust: debt is capped", steps: []step{
			{0, adjust(on("a", tenPer, 1e12)), "yes: took 1000000000000, -999999999980 left, full in 1250999h53m47.370496s"},
			{0, adjust(on("a", tenPer, 1e12)), "yes: took 20, -1000000000000 left, full in 1250999h53m47.370496s"},
			{0, adjust(on("a", tenPer, 1)), "yes: -1000000000000 left, full in 1250999h53m47.370496s"},
			{0, take(on("a", tenPer, 1)), "no: -1000000000000 left, retry in 1250999h53m47.370496s, full in 1250999h53m47.370496s"},
			{10 * time.Second, peek(on("a", tenPer, 1)), "no: -999999999900 left, retry in 1250999h53m47.370496s, full in 1250999h53m47.370496s"},
			{0, adjust(on("a", tenPer, -1e12)), "yes: took -1000000000000 of which 999999999920 back, 20 left"},
		}},
		{name: "reset", steps: []step{
			{0, reset("a"), "done"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, adjust(on("b", tenPer, 100)), "yes: took 100, -80 left, full in 10s"},
			{0, take(on("c", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 29.5995s"},
			{0, reset("a", "b", "c"), "done"},
			{0, take(on("a", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("b", tenPer, 20)), "yes: took 20, 0 left, full in 2s"},
			{0, take(on("c", "10/minute fixed", 10)), "yes: took 10, 0 left, full in 29.5995s"},
		}},
		{name: "list", needs: sluice.CanList, steps: []step{
			{0, list(), ""},
			{0, take(on("a", tenPer, 5)), "yes: took 5, 15 left, full in 500ms"},
			{0, take(on("b", "10/minute fixed", 4)), "yes: took 4, 6 left, full in 29.5995s"},
			{0, adjust(on("c", "60/hour", 61)), "yes: took 61, -1 left, full in 1h1m0s"},
			{0, take(on("d", "60/hour", 61)), "no: 60 left, never"},
			{0, peek(on("e", "60/hour", 1)), "yes: 60 left"},
			{100 * ms, list(), "a 10/s burst 20: 16 left, 5 consumed, full in 400ms; " +
				"b 10/minute fixed: 6 left, 4 consumed, full in 29.4995s; " +
				"c 60/hour: -0.999 left, 61 consumed, full in 1h0m59.9s"},
			{0, adjust(on("a", tenPer, -1)), "yes: took -1, 17 left, full in 300ms"},
			{300*ms - 1*µs, list(), "a 10/s burst 20: 19.999 left, 4 consumed, full in 1µs; " +
				"b 10/minute fixed: 6 left, 4 consumed, full in 29.199501s; " +
				"c 60/hour: -0.994 left, 61 consumed, full in 1h0m59.600001s"},
			{1 * µs, reset("c"), "done"},
			{0, list(), "b 10/minute fixed: 6 left, 4 consumed, full in 29.1995s"},
		}},
	})
}
