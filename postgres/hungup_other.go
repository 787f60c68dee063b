//go:build !unix

package postgres

import "net"

// hungUp cannot be told here: a call over a dead connection ends as unknown.
func hungUp(net.Conn) bool { return false }
