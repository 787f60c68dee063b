package faultproxy_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/faultproxy"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

// ask sends a line and answers what comes back within a while.
func (c client) ask(line string, within time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

func TestFaults(t *testing.T) {
	p := faultproxy.Start(t, echo(t))
	c := dial(t, p)
	if got, err := c.ask("a", time.Minute); got != "a\n" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}

	p.DelayAnswers(50 * time.Millisecond)
	start := time.Now()
	if got, err := c.ask("b", time.Minute); got != "b\n" || err != nil || time.Since(start) < 50*time.Millisecond {
		t.Errorf("delayed: %q after %s, %v", got, time.Since(start), err)
	}
	p.DelayAnswers(0)

	resume := p.Stall()
	stalled := dial(t, p)
	if got, err := stalled.ask("s", 50*time.Millisecond); err == nil {
		t.Errorf("heard %q of a server that stalls", got)
	}
	resume()
	if got, err := stalled.ask("t", time.Minute); got != "s\n" || err != nil {
		t.Errorf("after a stall: %q, %v", got, err)
	}

	p.LoseAnswers(true)
	if got, err := c.ask("c", 100*time.Millisecond); err == nil {
		t.Errorf("heard %q, which was to be lost", got)
	}
	for p.Lost() == 0 {
		time.Sleep(time.Millisecond) // a real connection has its own pace
	}
	p.Cut()
	p.LoseAnswers(false)
	if got, err := c.ask("d", time.Minute); err == nil {
		t.Errorf("heard %q on a connection that was cut", got)
	}
	if got, err := dial(t, p).ask("e", time.Minute); got != "e\n" || err != nil {
		t.Errorf("on a new connection: %q, %v", got, err)
	}
}

func TestServerGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := faultproxy.Start(t, l.Addr().String())
	if got, err := dial(t, p).ask("a", time.Minute); err == nil {
		t.Errorf("heard %q from a server that is not there", got)
	}
}
