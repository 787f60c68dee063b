// Package sqlite opens the embedded database: one file that holds the catalog,
// the slots and the replays of a Sluice that needs no server beside it.
//
// Each job is a package of its own, which works on a [DB]: catalogstore,
// slotstore and replaystore.
//
// Several processes may share the file on one machine. Every change is a
// transaction that is on disk before it is acknowledged.
package sqlite
