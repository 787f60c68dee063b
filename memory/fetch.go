//go:build amd64 || arm64

package memory

import "sync"

// fetch asks the processor for memory that is needed soon: the lock, to be
// written, and what is at four addresses. It waits for nothing, and an address
// that is not valid does no harm.
//
//go:noescape
func fetch(lock *sync.Mutex, table, tag, first, last uintptr)
