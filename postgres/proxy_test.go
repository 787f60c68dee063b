package postgres_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy is a TCP proxy in front of a server that can cut connections and
// lose what the server answers.
type proxy struct {
	address string // of the database through it
	server  string // host and port

	mu    sync.Mutex
	conns map[net.Conn]struct{}

	mute atomic.Bool
	lost atomic.Int64
}

func startProxy(tb testing.TB, address string) *proxy {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{server: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	p.address = u.String()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			go p.serve(client)
		}
	}()
	tb.Cleanup(func() {
		l.Close() //nolint:errcheck // it was only listening
		p.cut()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close() //nolint:errcheck // nothing came of it
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	go func() {
		io.Copy(server, client) //nolint:errcheck // ends when either side does
		p.end(client, server)
	}()
	io.Copy(muted{client, p}, server) //nolint:errcheck // ends when either side does
	p.end(client, server)
}

func (p *proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close() //nolint:errcheck // on purpose
		delete(p.conns, c)
	}
}

// cut ends all connections at once.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close() //nolint:errcheck // on purpose
		delete(p.conns, c)
	}
}

// muteAnswers loses what the server sends from now on, or no longer does. A
// connection that has lost something is of no use any more.
func (p *proxy) muteAnswers(mute bool) { p.mute.Store(mute) }

// swallowed is how often something was lost.
func (p *proxy) swallowed() int64 { return p.lost.Load() }

type muted struct {
	net.Conn
	p *proxy
}

func (m muted) Write(b []byte) (int, error) {
	if m.p.mute.Load() {
		m.p.lost.Add(1)
		return len(b), nil
	}
	return m.Conn.Write(b)
}
