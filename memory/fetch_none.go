//go:build !amd64 && !arm64

package memory

import "sync"

func fetch(*sync.Mutex, *byte, int, *int64, int, int) {}
