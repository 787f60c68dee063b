package sluice

import "time"

// Observer is told what a limiter does, for metrics and usage. Its methods
// are called on the caller's path, so they must be quick, safe for concurrent
// use, and must not keep what they are given.
type Observer interface {
	// Decided is told of every take that is not a peek. err is not nil if
	// there was no decision.
	Decided(t *Take, d *Decision, err error, took time.Duration)

	// Consumed is told of every change of net consumption: by takes,
	// adjustments and leases. Refunds are negative.
	Consumed(k Key, l Limit, amount Tokens)
}
