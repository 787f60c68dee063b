package sluice

import "time"

// Observer receives what a limiter does, for metrics and usage. Its methods
// are called on the caller's path, so they must be quick, safe for concurrent
// use, and must not keep what they are given.
type Observer interface {
	// Decided is called for every take that is not a peek. err is not nil if
	// there was no decision.
	Decided(t *Take, d *Decision, err error, took time.Duration)

	// Consumed is called for every change of net consumption: by takes,
	// adjustments and leases.
	Consumed(k Key, l Limit, c Consumption)

	// Waited is called for every caller that had to wait in line, once it is
	// served or has given up.
	Waited(t *Take, waited time.Duration, served bool)
}

// Consumption is one change of net consumption.
type Consumption struct {
	Amount Amount // refunds are negative

	// Taken is when it was taken, in the store's time: a lease that is
	// settled later changes what was consumed then.
	Taken time.Time

	// Take says that this is a take itself, so that each counts once however
	// often it is adjusted.
	Take bool

	// Result is the bucket after it, nil if the store was away.
	Result *Result
}
