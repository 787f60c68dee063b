//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// lock reserves a file for this process until it ends or the lock is released.
func lock(name string) (release func() error, err error) {
	f, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("%s is in use by another sluice: give this one other files, or both a shared store (--store redis://… or postgres://…)", name)
	}
	return f.Close, nil
}
