package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// connected returns a connection as the server has it, and its other end.
func connected(t *testing.T) (c *conn, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	inner, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); inner.Close() })
	return &conn{Conn: inner, drainer: &drainer{header: time.Second, open: map[*conn]struct{}{}, empty: make(chan struct{})}}, client
}

// A header that came in time is read although the server, which got no processor
// time, looks for it too late. One that has not come is not waited for.
func TestAHeaderThatHasComeIsReadHoweverLate(t *testing.T) {
	c, client := connected(t)
	header := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := client.Write([]byte(header)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	got := ""
	for len(got) < len(header) {
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got += string(b[:n])
	}
	if n, err := c.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d more, %v", n, err)
	}
}

// Whoever sends a header in small pieces is cut off all the same.
func TestASlowHeaderIsCutOff(t *testing.T) {
	c, client := connected(t)
	if _, err := client.Write(make([]byte, 10*maxLate)); err != nil {
		t.Fatal(err)
	}
	read := 0
	for {
		if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(make([]byte, 1))
		if err != nil {
			break
		}
		read += n
	}
	if read != maxLate {
		t.Errorf("%d pieces were read, want %d", read, maxLate)
	}
}
