package redis

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

// dialer makes connections that know how many calls are under way.
type dialer struct {
	calls        *atomic.Int32
	open, opened *atomic.Int64
}

// manyCalls are so many that the goroutines that want to send are worth waiting
// for. With fewer, waiting would only cost time.
const manyCalls = 12

// dial connects as the client would by itself.
func (d *dialer) dial(ctx context.Context, address string, by *net.Dialer, config *tls.Config) (net.Conn, error) {
	var c net.Conn
	var err error
	if config != nil {
		c, err = (&tls.Dialer{NetDialer: by, Config: config}).DialContext(ctx, "tcp", address)
	} else {
		c, err = by.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	d.opened.Add(1)
	return &connection{Conn: c, calls: d.calls, open: d.open}, nil
}

// connection lets others run before it writes. The client writes as soon as
// there is one command, and the next time all that have come meanwhile. When
// many answers arrive at once, those who got them have just become ready to go
// on: if they do so first, their commands go out in two packets instead of
// many, and writing packets is most of what a call costs.
type connection struct {
	net.Conn
	calls  *atomic.Int32
	open   *atomic.Int64
	closed sync.Once
}

func (c *connection) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func (c *connection) Write(b []byte) (int, error) {
	if c.calls.Load() >= manyCalls {
		runtime.Gosched()
	}
	return c.Conn.Write(b)
}
