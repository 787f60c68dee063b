package onhttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// contender is a server to ask.
type contender struct {
	name    string
	url     string
	script  string // of wrk, "" for a plain GET
	closers []func() error
}

func (c *contender) close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i]())
	}
	return errors.Join(errs...)
}

const (
	withHeaders = `
version: 1
tiers: {free: {limits: {requests: 10M/second}}}
default_tier: free
anonymous_tier: free
limits: {requests: {per: caller}}
headers: {send: [ietf]}
`
	withoutHeaders = `
version: 1
tiers: {free: {limits: {requests: 10M/second}}}
default_tier: free
anonymous_tier: free
limits: {requests: {per: caller}}
headers: {send: []}
`
	answer = `{"orders":[{"id":1,"state":"paid"},{"id":2,"state":"sent"}]}`
	body   = `{"entity":"alice","resource":"api"}`
)

// hello answers what an API would, the same each time.
func hello(text string) http.Handler {
	length := strconv.Itoa(len(text))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // there is none, or a short one
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", length)
		io.WriteString(w, text) //nolint:errcheck // the client is gone
	})
}

// sendHeaders sends headers like those of the middleware, which are always the
// same: what headers cost net/http and the client, whoever writes them.
func sendHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Ratelimit-Policy"] = []string{`"requests";q=10000000;w=1`}
		h["Ratelimit"] = []string{`"requests";r=9999999;t=1`}
		next.ServeHTTP(w, r)
	})
}

// The servers by number.
const (
	bare = iota
	decorated
	limited
	silent
	constant
	take
)

// open starts all servers, in that order.
func open(folder string) (all []contender, err error) {
	defer func() {
		if err != nil {
			for i := range all {
				err = errors.Join(err, all[i].close())
			}
		}
	}()
	script := filepath.Join(folder, "take.lua")
	text := "wrk.method = 'POST'\nwrk.body = '" + body + "'\nwrk.headers['Content-Type'] = 'application/json'\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name, script, path string
		handler            func(*contender, string) (http.Handler, error)
	}{
		{"net/http", "", "/orders", func(*contender, string) (http.Handler, error) { return hello(answer), nil }},
		{"net/http, sending two such headers itself", "", "/orders", func(*contender, string) (http.Handler, error) { return sendHeaders(hello(answer)), nil }},
		{"net/http behind the middleware", "", "/orders", behind(withHeaders)},
		{"the same without response headers", "", "/orders", behind(withoutHeaders)},
		{"net/http, reading a body and answering as long as a take", script, "/v1/take", answerTake},
		{"POST /v1/take", script, "/v1/take", takes},
	} {
		n := contender{name: c.name, script: c.script}
		h, err := c.handler(&n, folder)
		if err == nil {
			err = n.serve(h, c.path)
		}
		all = append(all, n)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (c *contender) serve(h http.Handler, path string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hs := &http.Server{Handler: h}
	go hs.Serve(l) //nolint:errcheck // ends with Close
	c.closers = append(c.closers, hs.Close)
	c.url = "http://" + l.Addr().String() + path
	return nil
}

func (c *contender) limiter() (*sluice.Limiter, error) {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, store.Close)
	return sluice.New(store), nil
}

// behind is a server behind the middleware.
func behind(text string) func(*contender, string) (http.Handler, error) {
	return func(c *contender, _ string) (http.Handler, error) {
		p, err := policy.Parse("bench", []byte(text))
		if err != nil {
			return nil, err
		}
		l, err := c.limiter()
		if err != nil {
			return nil, err
		}
		gate, err := httplimit.Open(context.Background(), httplimit.Config{Limiter: l, Policy: p})
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, gate.Close)
		return gate.Wrap(hello(answer)), nil
	}
}

// answerTake answers what a take does, without taking.
func answerTake(c *contender, _ string) (http.Handler, error) {
	return hello(`{"allowed":true,"retryAfter":0,"never":false,"limit":"rpm","entity":"alice","rule":"10M/s","capacity":1000000,"remaining":999999,"granted":1,"source":"store","results":[{"limit":"rpm","entity":"alice","rule":"10M/s","level":"system","fits":true,"retryAfter":0,"never":false,"consumed":1,"remaining":999999,"resetAfter":0.001}]}`), nil
}

// takes is the server itself, with its catalog.
func takes(c *contender, folder string) (http.Handler, error) {
	l, err := c.limiter()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(folder, "sluice.db"))
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, db.Close)
	cat, err := catalog.Open(ctx, catalog.Config{Store: catalogstore.New(db), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, cat.Close)
	if err := cat.Declare(catalog.DefaultNamespace, &catalog.Declaration{
		Name: "bench", System: catalog.Limits{"rpm": {Limit: sluice.MustParse("10M/s")}},
	}); err != nil {
		return nil, err
	}
	return server.Handler(server.Config{Limiter: l, Catalog: cat, Access: server.Access{Open: true}})
}
