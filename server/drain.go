package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Drain is how long requests under way may take to finish at shutdown. It
	// is more than writeTimeout, so that those which come last have their time.
	Drain = 15 * time.Second

	// linger is how long, at shutdown, a connection may go on to rest between
	// two requests: for longer than the next one can be on its way.
	linger = 500 * time.Millisecond
)

// Run serves hs on l until ctx is done, and then stops without failing a
// request. With a TLSConfig, hs speaks TLS; l is always a plain listener.
//
// [http.Server.Shutdown] alone would fail some: it closes connections on which
// a request has come that it has not read to the end of the header, drops
// requests whose header it read a moment later, and resets connections that
// the system has accepted and it has not. So Run first takes up every
// connection that waits, closes the listener, and goes on to serve the
// connections there are, each until its next answer, which says "Connection:
// close". One on which nothing comes for half a second is closed. What is left
// then, which is HTTP/2, is told to go away, as HTTP/2 can.
func Run(ctx context.Context, l net.Listener, hs *http.Server) error {
	d := &drainer{header: hs.ReadHeaderTimeout, open: map[*conn]struct{}{}, empty: make(chan struct{})}
	if d.header == 0 {
		d.header = usual.header
	}
	hs.Handler, hs.ConnState = d.announce(hs.Handler), d.changed
	door := &door{Listener: l, drainer: d}
	served := make(chan error, 1)
	go func() {
		if hs.TLSConfig != nil {
			served <- hs.ServeTLS(door, "", "")
			return
		}
		served <- hs.Serve(door)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), Drain)
	defer cancel()
	d.draining.Store(true)
	door.stop()
	<-served
	d.begin()
	select {
	case <-d.empty:
	case <-limited.Done():
	}
	if hs.Shutdown(limited) != nil {
		hs.Close() //nolint:errcheck // it is over either way
		return errors.New("requests were still in flight after " + Drain.String())
	}
	return nil
}

// drainer knows the connections of HTTP/1, which has no way to say that the
// next request is not welcome other than in the answer to the one before.
type drainer struct {
	header   time.Duration // how long a header may take
	draining atomic.Bool

	mu    sync.Mutex
	open  map[*conn]struct{}
	begun bool
	empty chan struct{} // closed when begun and none is left
}

// announce says in answers that the connection will be closed. One that is
// about to become something else is none of HTTP's any more.
func (d *drainer) announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.draining.Load() && r.Header["Upgrade"] == nil {
			w.Header()["Connection"] = []string{"close"}
		}
		next.ServeHTTP(w, r)
	})
}

// begin has the connections end that rest, and others once they do.
func (d *drainer) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = true
	d.check()
	for c := range d.open {
		c.drain()
	}
}

func (d *drainer) add(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[c] = struct{}{}
}

func (d *drainer) remove(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.open[c]; ok {
		delete(d.open, c)
		d.check()
	}
}

func (d *drainer) check() {
	if d.begun && len(d.open) == 0 {
		close(d.empty)
	}
}

// changed is told by net/http what becomes of a connection.
func (d *drainer) changed(nc net.Conn, to http.ConnState) {
	c := under(nc)
	if c == nil {
		return
	}
	switch to {
	case http.StateActive:
		if c.speaksHTTP2(nc) {
			c.leave()
			return
		}
		c.enter(active)
	case http.StateIdle:
		c.enter(resting)
	case http.StateHijacked:
		c.leave()
	}
}

// door takes up connections, and when it is to stop those that the system has
// taken up already.
type door struct {
	net.Listener
	*drainer
	stopping atomic.Bool
	until    time.Time // for those that come while it stops
}

// patient is a listener that can be told how long to wait.
type patient interface{ SetDeadline(time.Time) error }

func (l *door) stop() {
	l.until = time.Now().Add(100 * time.Millisecond)
	l.stopping.Store(true)
	if p, ok := l.Listener.(patient); !ok || p.SetDeadline(time.Now()) != nil {
		l.Close() //nolint:errcheck // it is over either way
	}
}

func (l *door) Accept() (net.Conn, error) {
	for deadline := (time.Time{}); ; {
		stopping := l.stopping.Load()
		if p, ok := l.Listener.(patient); ok && stopping {
			if time.Now().After(l.until) {
				return nil, net.ErrClosed
			}
			deadline = time.Now().Add(time.Millisecond)
			if err := p.SetDeadline(deadline); err != nil {
				return nil, net.ErrClosed
			}
		}
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := &conn{Conn: nc, drainer: l.drainer}
			l.add(c)
			return c, nil
		case !l.stopping.Load():
			return nil, err
		case !errors.Is(err, os.ErrDeadlineExceeded) || stopping && !time.Now().Before(deadline):
			return nil, net.ErrClosed // nothing waits
		}
	}
}
