package redis_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a TCP proxy in front of a server that can cut connections, and
// delay or lose what the server answers.
type proxy struct {
	url    string // of the server through it
	server string // host and port

	mu    sync.Mutex
	conns map[net.Conn]struct{}

	mute  atomic.Bool
	lost  atomic.Int64
	delay atomic.Int64 // nanoseconds
}

func startProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{server: server, url: "redis://" + l.Addr().String(), conns: map[net.Conn]struct{}{}}
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
	io.Copy(answers{client, p}, server) //nolint:errcheck // ends when either side does
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

// loseAnswers loses what the server sends from now on.
func (p *proxy) loseAnswers() { p.mute.Store(true) }

// hearAnswers ends that, and the connections, too: one that has lost
// something would take an answer for that to another question.
func (p *proxy) hearAnswers() {
	p.cut()
	p.mute.Store(false)
}

// delayAnswers has answers come so much later.
func (p *proxy) delayAnswers(d time.Duration) { p.delay.Store(int64(d)) }

// answers is the way back to the client.
type answers struct {
	client net.Conn
	p      *proxy
}

func (a answers) Write(b []byte) (int, error) {
	if d := time.Duration(a.p.delay.Load()); d > 0 {
		time.Sleep(d) // what a slow network does
	}
	if a.p.mute.Load() {
		a.p.lost.Add(1)
		return len(b), nil
	}
	return a.client.Write(b)
}
