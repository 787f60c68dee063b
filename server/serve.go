package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// writeTimeout is how long a request may take, from when its header was read
// until its caller has fetched the answer.
const writeTimeout = 10 * time.Second

// patience is how long callers may take, before they are cut off.
type patience struct {
	header time.Duration // to send the header of a request
	read   time.Duration // to send all of it
	write  time.Duration // until they have the answer
	idle   time.Duration // between two requests
}

var usual = patience{header: 5 * time.Second, read: 10 * time.Second, write: writeTimeout, idle: 2 * time.Minute}

// closingKey is where requests find out that the server shuts down.
type closingKey struct{}

// closing is done when the server begins to shut down: whoever waits in line
// is told to come back.
func closing(ctx context.Context) context.Context {
	if c, ok := ctx.Value(closingKey{}).(context.Context); ok {
		return c
	}
	return context.Background()
}

// Serve answers on l until ctx is done, and then finishes the requests it has
// begun before it returns, as [Run] does. log gets what the connections
// complain of.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	return ServeTLS(ctx, l, h, nil, log)
}

// ServeTLS is like Serve, over TLS if config is not nil.
func ServeTLS(ctx context.Context, l net.Listener, h http.Handler, config *tls.Config, log *slog.Logger) error {
	hs := newServer(ctx, h, log, usual)
	hs.TLSConfig = config
	return Run(ctx, l, hs)
}

func newServer(ctx context.Context, h http.Handler, log *slog.Logger, p patience) *http.Server {
	base := context.WithValue(context.WithoutCancel(ctx), closingKey{}, ctx)
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: p.header,
		ReadTimeout:       p.read,
		WriteTimeout:      p.write,
		IdleTimeout:       p.idle,
		MaxHeaderBytes:    maxBody,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
