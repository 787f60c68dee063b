// Package faultproxy is the bad network of the stores' tests: a TCP proxy in
// front of a real server that cuts connections, and delays or loses what the
// server answers.
package faultproxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP proxy that passes everything on until it is told otherwise.
// It ends with the test.
type Proxy struct {
	addr   string
	server string

	mu    sync.Mutex
	conns map[net.Conn]struct{}

	lose  atomic.Bool
	lost  atomic.Int64
	delay atomic.Int64 // nanoseconds
	stall sync.RWMutex // held for writing while nothing passes
}

// Start starts one in front of the server, which is a host and a port.
func Start(tb testing.TB, server string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{addr: l.Addr().String(), server: server, conns: map[net.Conn]struct{}{}}
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
		p.Cut()
	})
	return p
}

// Addr is the host and port to connect to instead of the server's.
func (p *Proxy) Addr() string { return p.addr }

// Cut ends all connections at once. New ones can be made.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close() //nolint:errcheck // on purpose
		delete(p.conns, c)
	}
}

// LoseAnswers says whether what the server sends is lost from now on. A
// connection that has lost something is of no use afterwards: it would take
// the next answer for the one that was lost. Clients that do not give it up by
// themselves have to be cut before answers are heard again.
func (p *Proxy) LoseAnswers(lose bool) { p.lose.Store(lose) }

// Lost is how often something the server sent was lost.
func (p *Proxy) Lost() int64 { return p.lost.Load() }

// Stall keeps back what the server sends until resume is called, once. New
// connections are taken up meanwhile.
func (p *Proxy) Stall() (resume func()) {
	p.stall.Lock()
	return p.stall.Unlock
}

// DelayAnswers has what the server sends arrive so much later.
func (p *Proxy) DelayAnswers(d time.Duration) { p.delay.Store(int64(d)) }

func (p *Proxy) serve(client net.Conn) {
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
	io.Copy(answers{client, p}, server) //nolint:errcheck // ends when either side does
	p.end(client, server)
}

func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close() //nolint:errcheck // one of them is closed already
		delete(p.conns, c)
	}
}

// answers is the way back to the client.
type answers struct {
	client net.Conn
	p      *Proxy
}

func (a answers) Write(b []byte) (int, error) {
	if d := time.Duration(a.p.delay.Load()); d > 0 {
		time.Sleep(d) // what a slow network does
	}
	a.p.stall.RLock()
	defer a.p.stall.RUnlock()
	if a.p.lose.Load() {
		a.p.lost.Add(1)
		return len(b), nil
	}
	return a.client.Write(b)
}
