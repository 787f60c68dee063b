// Package sqlite is the embedded database: one file that holds the catalog,
// the slots and the replays of a Sluice that needs no server beside it.
//
// Several processes may share the file on one machine. Every change is a
// transaction that is on disk before it is acknowledged.
package sqlite
