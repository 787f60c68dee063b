// Package postgres connects to PostgreSQL for the jobs that it does, each a
// package of its own: limitstore keeps buckets, catalogstore the catalog,
// slotstore slots and replaystore the replays of idempotent writes.
//
// A job opens its own [DB] with a [Config], which creates or migrates the tables
// and functions of all jobs in a schema of its own. It works through PgBouncer,
// also in transaction mode, and finds out by itself that it does.
package postgres
