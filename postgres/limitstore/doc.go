// Package limitstore is a [sluice.Store] on PostgreSQL alone: one bucket shared
// by every process that reaches the database, and nothing else to run.
//
// Each call is one function call in the database, and so one transaction: it
// locks the buckets it names in the order of their keys, reads the clock once,
// decides, and writes what has changed. Whoever crashes meanwhile has changed
// nothing and blocks nobody, because the locks are the transaction's own.
//
// Takes that arrive while a call is under way go together into the next one,
// in the order they came. So a bucket that everybody wants costs one commit
// for many takes. The store sweeps out what has expired.
package limitstore
