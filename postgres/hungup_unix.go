//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// hungUp reports whether the other end of an idle connection has closed it, or
// has sent something, which an idle server only does to say goodbye. A call
// sent over it would be lost, and its outcome unknown; this is cheap to find
// out before.
func hungUp(conn net.Conn) bool {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	var gone bool
	// Not raw.Read: pgx may have a read of its own pending, and that would
	// wait for it.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n > 0 || err != syscall.EAGAIN && err != syscall.EINTR
	})
	return err != nil || gone
}
