package once_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluice-go/sluice/internal/once"
)

// dropper executes every request and answers the first alone. After any other
// it closes the connection.
type dropper struct {
	net.Listener
	mu       sync.Mutex
	executed []string
}

func newDropper(t *testing.T) *dropper {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dropper{Listener: l}
	t.Cleanup(func() { l.Close() })
	return d
}

func (d *dropper) execute(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.executed = append(d.executed, what)
	return len(d.executed)
}

func (d *dropper) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.executed)
}

func (d *dropper) serve(each func(net.Conn)) {
	for {
		c, err := d.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			each(c)
		}()
	}
}

func (d *dropper) http1(c net.Conn) {
	for in := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if d.execute(r.Method+" "+r.Header.Get("Idempotency-Key")) > 1 {
			return
		}
		io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	}
}

// http2 resets all but the first request with PROTOCOL_ERROR.
func (d *dropper) http2(c net.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			key := ""
			for _, field := range frame.Fields {
				if field.Name == "idempotency-key" {
					key = field.Value
				}
			}
			if d.execute(frame.PseudoValue("method")+" "+key) > 1 {
				f.WriteRSTStream(frame.StreamID, http2.ErrCodeProtocol)
				continue
			}
			var b strings.Builder
			hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "204"})
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: []byte(b.String()), EndStream: true, EndHeaders: true})
		}
	}
}

// writes are sent over a connection that is in use already, and executed before
// it breaks.
var writes = []struct{ method, body string }{
	{"POST", "x"}, {"POST", ""}, {"PUT", "x"}, {"PUT", ""}, {"PATCH", "x"}, {"PATCH", ""}, {"DELETE", "x"}, {"DELETE", ""},
}

func send(t *testing.T, rt http.RoundTripper, method, url, body string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", `"k"`)
	response, err := (&http.Client{Transport: rt}).Do(r)
	if err == nil {
		response.Body.Close()
	}
	return err
}

func TestAWriteIsSentOnceOverAConnectionThatBreaks(t *testing.T) {
	http2c := new(http.Protocols)
	http2c.SetUnencryptedHTTP2(true)
	for _, proto := range []string{"HTTP/1", "HTTP/2"} {
		for _, w := range writes {
			d := newDropper(t)
			base := &http.Transport{}
			if proto == "HTTP/2" {
				base.Protocols = http2c
				go d.serve(d.http2)
			} else {
				go d.serve(d.http1)
			}
			defer base.CloseIdleConnections()
			rt := once.Transport{Base: base, HTTP2: proto == "HTTP/2"}
			url := "http://" + d.Addr().String()
			if err := send(t, rt, w.method, url, w.body); err != nil {
				t.Fatalf("%s %s: the first: %v", proto, w.method, err)
			}
			err := send(t, rt, w.method, url, w.body)
			if err == nil || errors.Is(err, once.ErrNotSent) || d.count() != 2 {
				t.Errorf("%s %s with body %q: executed %q, %v", proto, w.method, w.body, d.executed, err)
			}
			if want := w.method + ` "k"`; d.executed[1] != want {
				t.Errorf("%s: executed %q, want %q", proto, d.executed[1], want)
			}
		}
	}
}

// TestWhatIsProvenNotToBeSent: without a connection, or without a handshake,
// nothing was sent.
func TestWhatIsProvenNotToBeSent(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	strange := httptest.NewTLSServer(http.NotFoundHandler())
	defer strange.Close()
	rt := once.Transport{Base: &http.Transport{TLSClientConfig: &tls.Config{}}}
	for _, url := range []string{closed.URL, strange.URL} {
		if err := send(t, rt, "POST", url, "x"); !errors.Is(err, once.ErrNotSent) {
			t.Errorf("%s: %v", url, err)
		}
	}
	silent := once.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })}
	if err := send(t, silent, "POST", closed.URL, "x"); err == nil || errors.Is(err, once.ErrNotSent) {
		t.Errorf("a base that does not trace: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
