package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Route is a route for the tests to look at.
type Route struct {
	Method, Path string
	Role         Role
}

// Routes are all that need a caller.
func Routes() (all []Route) {
	for _, group := range routes {
		for _, rt := range group {
			method, path, _ := strings.Cut(rt.pattern, " ")
			all = append(all, Route{method, path, rt.role})
		}
	}
	return all
}

// ServeImpatiently is Serve for callers who have little time.
func ServeImpatiently(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, each time.Duration) error {
	return Run(ctx, l, newServer(ctx, h, log, patience{each, each, each, each}))
}

// QuickTake reads a body in the quick way, and the usual one.
func QuickTake(body []byte) (quick, usual takeRequest, ok bool, err error) {
	ok = quick.quick(body)
	err = decode(strings.NewReader(string(body)), &usual)
	return quick, usual, ok, err
}
