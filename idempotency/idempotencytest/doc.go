// Package idempotencytest is the conformance suite of idempotency stores.
package idempotencytest
