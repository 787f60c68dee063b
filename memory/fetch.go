//go:build amd64 || arm64

package memory

import "sync"

// fetch asks the processor for memory that is needed soon: the lock, to be
// written; the tag; and the record's first and last line, which are at so many
// bytes from the start of the words. It waits for nothing, and an address that
// is not valid does no harm.
//
//go:noescape
func fetch(lock *sync.Mutex, tags *byte, tag int, words *int64, record, last int)
