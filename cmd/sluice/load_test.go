package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/client"
)

// errGone is that the server takes up no more connections.
var errGone = errors.New("the server is gone")

// fleet is clients that ask for as long as there is a server, and what they
// got.
type fleet struct {
	t       *testing.T
	name    string               // what the names of what it makes begin with
	words   [2]*strings.Replacer // what the server calls things, in requests and in answers; nil as this commit does
	working sync.WaitGroup
	stopped atomic.Bool // the server has been told to stop, or soon will be
	crashed atomic.Bool // it was killed, or soon will be: then anything may happen to requests
	kinds   []string
	pause   time.Duration // of each client between two requests

	mu    sync.Mutex
	done  map[string]int // how often something was done, by kind of client
	spent map[string]int // what was allowed, by bucket
	known [][]string     // what was acknowledged: what it is, its name, and more
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, done: map[string]int{}, spent: map[string]int{}}
}

// employ has several clients of a kind do something over and over, until the
// server is gone. Any other error is a failure.
func (f *fleet) employ(kind string, workers int, hire func(worker int) func(i int) error) {
	f.kinds = append(f.kinds, kind)
	for worker := range workers {
		work := hire(worker)
		f.working.Go(func() {
			for i := 0; ; i++ {
				err := work(i)
				if errors.Is(err, errGone) || err != nil && f.crashed.Load() {
					return
				}
				if err != nil {
					f.t.Errorf("%s: %v", kind, err)
					return
				}
				f.mu.Lock()
				f.done[kind]++
				f.mu.Unlock()
				time.Sleep(f.pause)
			}
		})
	}
}

// spend notes what a bucket was asked for, and allowed.
func (f *fleet) spend(bucket string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent[bucket] += n
}

// acknowledged notes something that must not be forgotten.
func (f *fleet) acknowledged(what ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = append(f.known, what)
}

// under waits until all kinds of clients are at it.
func (f *fleet) under(times int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%d times each of %v", times, f.kinds), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, kind := range f.kinds {
			if f.done[kind] < times && !f.t.Failed() {
				return false
			}
		}
		return true
	})
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// caller is a client with a connection of its own. It tells a server that is
// gone from a request that failed.
//
// A request has failed if it was sent on a connection that was used before,
// however it ended: a server that does not want another one has said so in its
// last answer. It has failed, too, if it was sent on a new connection that was
// there before the server was told to stop. A connection that comes up after
// that may be refused, or reset before anything was answered: the system takes
// up connections in the server's place until the server closes its listener,
// and resets those that the server did not get to.
type caller struct {
	fleet     *fleet
	transport *http.Transport
}

func (f *fleet) caller() *http.Client {
	c := &caller{fleet: f, transport: &http.Transport{MaxConnsPerHost: 1}}
	f.t.Cleanup(c.transport.CloseIdleConnections)
	return &http.Client{Transport: c}
}

func (c *caller) RoundTrip(r *http.Request) (*http.Response, error) {
	var late bool
	if err := c.fleet.translate(0, &r.Body, &r.ContentLength); err != nil {
		return nil, err
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { late = !info.Reused && c.fleet.stopped.Load() }}
	response, err := c.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	var dial *net.OpError
	switch {
	case err == nil:
		return response, c.fleet.translate(1, &response.Body, &response.ContentLength)
	case errors.As(err, &dial) && dial.Op == "dial" && c.fleet.stopped.Load():
	case late && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
	default:
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", errGone, err)
}

// translate puts the server's words in place of this commit's, or the other way
// round.
func (f *fleet) translate(way int, body *io.ReadCloser, length *int64) error {
	if f.words[way] == nil || *body == nil {
		return nil
	}
	text, err := io.ReadAll(*body)
	if err != nil {
		return err
	}
	said := f.words[way].Replace(string(text))
	*body, *length = io.NopCloser(strings.NewReader(said)), int64(len(said))
	return nil
}

// api is a client of the API with a connection of its own.
func (f *fleet) api(p *process) *client.Client {
	f.t.Helper()
	c, err := client.New(client.Config{URL: p.url(), HTTPClient: f.caller()})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// gone is err, or that the server is gone. A call of gRPC may end so only
// before it was sent: if no connection was to be had.
func (f *fleet) gone(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connection error: desc") && f.stopped.Load() {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}

// fetch sends a request and answers its status and body.
func fetch(c *http.Client, r *http.Request) (*http.Response, string, error) {
	response, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}
