// Package limitstore keeps buckets in a table of DynamoDB.
//
// All limits of one entity and resource are in one item, with a version. A call reads
// the items that it is about, decides in the arithmetic of package bucket, and writes
// them on the condition that their versions have not changed: one item by a
// conditional write, several and the receipts of leases and request ids in one
// transaction. If one has changed, it decides again.
//
// DynamoDB has no clock that could be used, so time is that of the nodes; for a bucket
// it never runs backwards. docs/dynamodb.md says what that means, what is stored and
// what it costs.
package limitstore
