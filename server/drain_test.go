package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-go/sluice/server"
)

// stopping is a server that can be stopped while requests are under way: each
// says that it has come, and waits to be let go.
type stopping struct {
	address string
	come    chan struct{}
	letGo   chan struct{}
	cancel  context.CancelFunc
	ended   chan error
	client  *tls.Config // nil without TLS
}

func startStopping(t *testing.T, overTLS bool) *stopping {
	t.Helper()
	s := &stopping{come: make(chan struct{}, 16), letGo: make(chan struct{}), ended: make(chan error, 1)}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.address = listener.Addr().String()
	var config *tls.Config
	if overTLS {
		// Only for its certificate, and a client that trusts it.
		lender := httptest.NewUnstartedServer(nil)
		lender.EnableHTTP2 = true
		lender.StartTLS()
		config = &tls.Config{Certificates: lender.TLS.Certificates}
		s.client = lender.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		s.client.NextProtos = nil
		lender.Close()
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	t.Cleanup(s.cancel)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			s.come <- struct{}{}
			<-s.letGo
		}
		fmt.Fprintf(w, "%s over %s", r.URL.Path, r.Proto)
	})
	go func() { s.ended <- server.ServeTLS(ctx, listener, handler, config, slog.New(slog.DiscardHandler)) }()
	return s
}

// stop tells the server to stop, and waits until it takes up no connections.
func (s *stopping) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	for {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			return
		}
		c.Close()
	}
}

func (s *stopping) over(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

func (s *stopping) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := must(net.Dial("tcp", s.address))(t)
	if s.client != nil {
		config := s.client.Clone()
		config.ServerName = "example.com"
		c = tls.Client(c, config)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func readAnswer(t *testing.T, r *bufio.Reader, want string) *http.Response {
	t.Helper()
	response := must(http.ReadResponse(r, nil))(t)
	defer response.Body.Close()
	if text := must(io.ReadAll(response.Body))(t); string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
	return response
}

// A request of which a part had come is answered, on a connection that was
// used before as on a new one, and the client is told that it was the last. One
// that rests is closed.
func TestStoppingFinishesWhatHasBegunToCome(t *testing.T) {
	for name, overTLS := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			s := startStopping(t, overTLS)
			used, usedReader := s.dial(t)
			resting, restingReader := s.dial(t)
			for c, r := range map[net.Conn]*bufio.Reader{used: usedReader, resting: restingReader} {
				must(io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
				if readAnswer(t, r, "/1 over HTTP/1.1").Close {
					t.Error("the first answer says that it is the last")
				}
			}
			fresh, freshReader := s.dial(t)
			must(io.WriteString(fresh, "GET /2"))(t)
			must(io.WriteString(used, "GET /2"))(t)
			s.stop(t)
			if _, err := restingReader.ReadByte(); err != io.EOF { // by now the others could be closed, too
				t.Errorf("the connection that rests: %v", err)
			}
			for c, r := range map[net.Conn]*bufio.Reader{used: usedReader, fresh: freshReader} {
				must(io.WriteString(c, " HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
				if !readAnswer(t, r, "/2 over HTTP/1.1").Close {
					t.Error("the last answer does not say that it is")
				}
			}
			s.over(t)
		})
	}
}

// An answer that began before the server was told to stop does not say that it
// is the last, so the next request on its connection is answered as well.
func TestStoppingAnswersOnceMore(t *testing.T) {
	s := startStopping(t, false)
	c, r := s.dial(t)
	must(io.WriteString(c, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	<-s.come
	s.stop(t)
	close(s.letGo)
	readAnswer(t, r, "/long over HTTP/1.1")
	must(io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	if !readAnswer(t, r, "/next over HTTP/1.1").Close {
		t.Error("the last answer does not say that it is")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("then came %v", err)
	}
	s.over(t)
}

// Over HTTP/2, requests under way are finished, also after the connection was
// told to go away.
func TestStoppingFinishesStreams(t *testing.T) {
	s := startStopping(t, true)
	transport := &http.Transport{TLSClientConfig: s.client, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	get := func(path string) (string, error) {
		response, err := transport.RoundTrip(must(http.NewRequestWithContext(t.Context(), "GET", "https://"+s.address+path, nil))(t))
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	if text, err := get("/1"); err != nil || text != "/1 over HTTP/2.0" {
		t.Fatalf("%q, %v", text, err)
	}
	answers := make(chan error, 3)
	for range cap(answers) {
		go func() {
			text, err := get("/long")
			if err == nil && text != "/long over HTTP/2.0" {
				err = fmt.Errorf("got %q", text)
			}
			answers <- err
		}()
		<-s.come
	}
	s.stop(t)
	close(s.letGo)
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	s.over(t)
}
