package inprocess

import (
	"net/http"

	"github.com/go-chi/httprate"

	"github.com/sluice-go/sluice/bench/contest"
)

// openHTTPRate asks through OnLimit, which is the call that counts: Status
// only looks. Response headers are switched off, to its advantage.
func openHTTPRate(l limit, _ int) (*instance, error) {
	limiter := httprate.NewRateLimiter(l.Burst, l.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	return &instance{
		caller: func() contest.Take {
			w, r := &discard{http.Header{}}, &http.Request{}
			return func(key string) (bool, error) { return !limiter.OnLimit(w, r, key), nil }
		},
		close: func() {},
	}, nil
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
