//go:build !amd64 && !arm64

package memory

import "sync"

func fetch(*sync.Mutex, uintptr, uintptr, uintptr, uintptr) {}
