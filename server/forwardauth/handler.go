package forwardauth

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sluice-go/sluice/httplimit"
)

// The headers that proxies tell of a request in. They are the same for all,
// and each proxy must set them, because it passes on what the client sends by
// a name that it does not know.
const (
	methodHeader = "X-Forwarded-Method"
	uriHeader    = "X-Forwarded-Uri"
	hostHeader   = "X-Forwarded-Host"

	// statusHeader has the status for the client where another is answered.
	statusHeader = "X-Sluice-Status"
)

// maxURI is the longest path and query that is looked at.
const maxURI = 16 << 10

// Config is what a handler needs to know.
type Config struct {
	// Gate decides.
	Gate *httplimit.Gate

	// Log is told once of a proxy that the policy does not trust. Nil means
	// slog.Default.
	Log *slog.Logger
}

type handler struct {
	gate   *httplimit.Gate
	asked  http.Handler
	log    *slog.Logger
	warned atomic.Bool
}

// Handler returns a handler that answers proxies. Mount it at one path, such as /auth.
func Handler(config Config) (http.Handler, error) {
	if config.Gate == nil {
		return nil, errors.New("forwardauth: Gate: must be set")
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	passed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := httplimit.Admitted(r.Context()); c != nil { // for the proxy to pass on
			for _, name := range c.Policy.Upstream.Names() {
				w.Header().Set(name, r.Header.Get(name))
			}
		}
		w.WriteHeader(http.StatusOK)
	})
	return &handler{gate: config.Gate, asked: config.Gate.Wrap(passed), log: config.Log}, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch status := r.URL.Query().Get("status"); status {
	case "":
	case "403":
		w = &translator{ResponseWriter: w}
	default:
		problem(w, http.StatusBadRequest, "status: must be 403, or left out")
		return
	}
	if _, trusted := h.gate.Client(r.Header, r.RemoteAddr); !trusted {
		if !h.warned.Swap(true) {
			h.log.WarnContext(r.Context(), "forwardauth: request from an address that is not a trusted proxy; see identity.address.trusted_proxies in the policy", "remote", r.RemoteAddr)
		}
		problem(w, http.StatusForbidden, "only a trusted proxy may ask: see identity.address.trusted_proxies in the policy")
		return
	}
	original, err := original(r)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	h.asked.ServeHTTP(w, original)
}

// original is the request that the proxy asks about. Each header must be
// there once: a second value would be one that the client has sent.
func original(r *http.Request) (*http.Request, error) {
	method, err := one(r.Header, methodHeader)
	if err != nil {
		return nil, err
	}
	uri, err := one(r.Header, uriHeader)
	if err != nil {
		return nil, err
	}
	if len(uri) > maxURI {
		return nil, errors.New(uriHeader + ": must be at most " + strconv.Itoa(maxURI) + " bytes long")
	}
	if strings.Contains(uri, "#") {
		// nginx passes it on, and some servers end the path there and others do not.
		return nil, errors.New(uriHeader + ": must have no #, which no request may have; as a part of a name it is %23")
	}
	target, err := url.ParseRequestURI(uri)
	if err != nil || !strings.HasPrefix(uri, "/") {
		return nil, errors.New(uriHeader + ": must be a path, with its query if it has one")
	}
	o := r.Clone(r.Context())
	o.Method, o.URL, o.RequestURI, o.Body = method, target, uri, http.NoBody
	if host := r.Header.Get(hostHeader); host != "" {
		o.Host = host
	}
	return o, nil
}

func one(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", errors.New(name + ": the proxy must set it, once")
	}
	return values[0], nil
}

// translator answers in a way that nginx passes on.
type translator struct {
	http.ResponseWriter
}

func (t *translator) WriteHeader(status int) {
	if status >= 300 && status != http.StatusUnauthorized {
		t.Header().Set(statusHeader, strconv.Itoa(status))
		status = http.StatusForbidden
	}
	t.ResponseWriter.WriteHeader(status)
}

// problem answers a question that makes no sense.
func problem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
	if err != nil { // strings and a number can always be written
		panic(err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the proxy is gone
}
