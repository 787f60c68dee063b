// Package dynamodb connects to a table of DynamoDB for the jobs that it does, each
// a package of its own: limitstore keeps buckets.
//
// All jobs share one table, which [Setup] creates. A job opens its own [DB] with a
// [Config].
package dynamodb
