package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// phase is how far a connection is with a request.
type phase int

const (
	resting phase = iota // nothing of the next request has been read
	coming               // a part of its header has
	active               // it is being served
	left                 // nobody's business here: HTTP/2, or taken over
)

// conn is a connection that can be ended between two requests. Only its
// reader ends it, when it has found nothing to read: so no request is cut off
// that has come.
type conn struct {
	net.Conn
	drainer *drainer

	mu    sync.Mutex
	phase phase
	known bool      // whether it speaks HTTP/2
	http2 bool      // it does
	want  time.Time // until when the server wants to read
	late  int       // reads of the header after its time
	ends  bool      // it is to end
	until time.Time // and does not rest for longer
}

// under is the conn that something was made of.
func under(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// speaksHTTP2 reports whether it does; nc is c or TLS on top of it.
func (c *conn) speaksHTTP2(nc net.Conn) bool {
	c.mu.Lock()
	known, http2 := c.known, c.http2
	c.mu.Unlock()
	if known {
		return http2
	}
	if t, ok := nc.(*tls.Conn); ok { // without the lock: TLS may be reading
		http2 = t.ConnectionState().NegotiatedProtocol == "h2"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.http2 = true, http2
	return http2
}

// leave forgets the connection: others see to it.
func (c *conn) leave() {
	c.enter(left)
	c.drainer.remove(c)
}

func (c *conn) enter(p phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == left {
		return
	}
	c.phase, c.late = p, 0
	c.limit()
}

// drain has the connection end when it rests.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = true
	c.limit()
}

// limit bounds how long a connection that is to end may stay in its phase.
func (c *conn) limit() {
	if !c.ends {
		return
	}
	c.until = time.Time{}
	switch c.phase {
	case resting:
		c.until = time.Now().Add(linger)
	case coming:
		c.until = time.Now().Add(c.drainer.header)
	}
	c.apply() //nolint:errcheck // it is closed already
}

func (c *conn) apply() error {
	t := c.want
	if !c.until.IsZero() && (t.IsZero() || c.until.Before(t)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// SetReadDeadline is how the server says for how long it reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want = t
	return c.apply()
}

// SetDeadline is for both directions.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetWriteDeadline(t), c.SetReadDeadline(t))
}

// maxLate is how often more of a header may be found after its time: whoever sends it
// slowly does not gain much.
const maxLate = 64

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != resting && c.phase != coming {
		return n, err
	}
	if n == 0 && c.late < maxLate && errors.Is(err, os.ErrDeadlineExceeded) {
		// Something may have come together with the end, or long before it, if this
		// process gets no processor time. That is not the caller's fault.
		c.late++
		c.Conn.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // then nothing is read
		if n, err = c.Conn.Read(b); n == 0 && c.phase == resting && c.ends && !time.Now().Before(c.until) {
			return 0, io.EOF
		}
	}
	if n > 0 && c.phase == resting {
		if !c.known && bytes.HasPrefix(b[:n], []byte("PRI * HTTP/2.0")) {
			c.known, c.http2 = true, true
		}
		c.phase = coming
		c.limit()
	}
	return n, err
}

// Close closes it.
func (c *conn) Close() error {
	c.drainer.remove(c)
	return c.Conn.Close()
}

// CloseWrite lets the client read what was written before the end.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}
