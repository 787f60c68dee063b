package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/once"
	"github.com/sluice-go/sluice/internal/requestid"
)

// Gateway is a reverse proxy behind a gate. It is an [http.Handler]; Serve
// and Shutdown run it as a server of its own.
type Gateway struct {
	config   Config
	upstream *url.URL
	proxy    *httputil.ReverseProxy
	handler  http.Handler
	server   *http.Server

	ctx    context.Context // ends requests that outlive a shutdown
	stop   context.CancelFunc
	active sync.WaitGroup // requests, also those whose connection was taken over
	mu     sync.Mutex
	closed bool
}

// New returns a gateway for config.
func New(config Config) (*Gateway, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	upstream, h2c, err := config.upstream()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Gateway{config: config, upstream: upstream, ctx: ctx, stop: stop}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      config.transport(h2c),
		ModifyResponse: modify,
		ErrorHandler:   g.failed,
		ErrorLog:       slog.NewLogLogger(config.Log.Handler(), slog.LevelWarn),
		BufferPool:     buffers,
	}
	var inner http.Handler = http.HandlerFunc(g.forward)
	if config.Inner != nil {
		inner = config.Inner(http.HandlerFunc(g.detached))
	}
	g.handler = config.Gate.Wrap(g.bounded(inner))
	g.server = g.newServer()
	return g, nil
}

func (g *Gateway) newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           g,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       g.config.IdleTimeout,
		MaxHeaderBytes:    g.config.MaxHeader,
		ErrorLog:          slog.NewLogLogger(g.config.Log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return g.ctx },
	}
}

// Server returns the server that Serve runs, for callers that want to set its TLS
// and call ServeTLS themselves.
func (g *Gateway) Server() *http.Server { return g.server }

// Serve accepts connections until Shutdown, and then answers
// [http.ErrServerClosed].
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown accepts nothing more and waits until every request is answered and
// every WebSocket closed. When ctx ends before that, the rest is broken off,
// and ctx's error is the answer.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	err := g.server.Shutdown(ctx)
	idle := make(chan struct{})
	go func() {
		g.active.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.stop()
	if err != nil {
		g.server.Close() //nolint:errcheck // the reason is in err
		<-idle
	}
	g.proxy.Transport.(once.Transport).CloseIdleConnections()
	return err
}

// enter counts a request, unless the gateway is closed.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.active.Add(1)
	}
	return !g.closed
}

// exchange is what the parts of the gateway know about one request.
type exchange struct {
	id      string
	header  http.Header // of the response, as it was before the upstream answered
	stalled atomic.Bool // the client was too slow with its body
	broken  atomic.Bool // the body is malformed, or ends too soon
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// ServeHTTP gives the request an id and lets the gate decide.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestid.Give(w.Header(), r.Header)
	// Requests that were on their way when a shutdown began are served: their
	// connection is open, so the server waits for them.
	if g.enter() {
		defer g.active.Done()
	}
	if r.ProtoMajor == 1 {
		defer g.finish(w, r)
	}
	switch {
	case r.Method == http.MethodConnect:
		// A tunnel through the upstream would lead past the gate.
		problem(w, http.StatusMethodNotAllowed, "ERR_METHOD", "CONNECT is not supported")
	case strings.Contains(r.RequestURI, "#"):
		// No request may have one: some servers end the path there, and others do not.
		problem(w, http.StatusBadRequest, "ERR_BAD_REQUEST", "the address has a #; as a part of a name it is %23")
	default:
		g.handler.ServeHTTP(w, r)
	}
}

// finish bounds what net/http still does in HTTP/1 after a request was
// answered: to write the end of the answer, and to read the rest of a body
// that nobody wanted. It takes the deadlines back itself.
func (g *Gateway) finish(w http.ResponseWriter, r *http.Request) {
	control, now := http.NewResponseController(w), time.Now()
	// It reads first, and must have time left to write.
	control.SetWriteDeadline(now.Add(2 * g.config.StallTimeout)) //nolint:errcheck // where it cannot be set, writing still works
	if r.Body != nil && r.Body != http.NoBody {
		control.SetReadDeadline(now.Add(g.config.StallTimeout)) //nolint:errcheck // as above
	}
}

// bounded serves a request that has passed the gate: it may have so many bytes
// and so much time for them, whoever reads and answers it further in.
func (g *Gateway) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.config.MaxBody >= 0 && r.ContentLength > g.config.MaxBody {
			g.tooLarge(w)
			return
		}
		e := &exchange{id: r.Header.Get(requestid.Header)}
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
		sw := &stallWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: g.config.StallTimeout}
		if r.Body != nil && r.Body != http.NoBody {
			body := r.Body
			if g.config.MaxBody >= 0 {
				body = http.MaxBytesReader(w, body, g.config.MaxBody)
			}
			stall := &stallReader{ReadCloser: body, control: sw.control, timeout: g.config.StallTimeout, exchange: e}
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				stall.rate = g.config.MinBodyRate
			}
			defer stall.end()
			r.Body = stall
		}
		next.ServeHTTP(sw, r)
	})
}

// detached is forward for requests that may outlive their client, and so the
// connection that a shutdown breaks off.
func (g *Gateway) detached(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	g.forward(w, r.WithContext(ctx))
}

// forward sends a request to the upstream.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	exchangeOf(r.Context()).header = w.Header()
	g.proxy.ServeHTTP(w, r)
}

var buffers = &bufferPool{}

// bufferPool lends the buffers that bodies are copied through.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }
