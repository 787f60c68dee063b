package httplimit

import (
	"net/http"
	"sync"

	"github.com/sluice-go/sluice"
)

// Wrap puts the gate before next. Requests that pass carry the headers that
// the policy asks for; others never reach next.
//
// A panic in next gives back what the request has taken, except
// [http.ErrAbortHandler], which breaks a response off that has cost as much
// as any.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return &handler{gate: g, next: next}
}

type handler struct {
	gate *Gate
	next http.Handler
}

var calls = sync.Pool{New: func() any { return new(Call) }}

func (m *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := calls.Get().(*Call)
	request := Request{Method: r.Method, Path: r.URL.EscapedPath(), Header: r.Header, Remote: r.RemoteAddr}
	if identify := m.gate.config.Identify; identify != nil {
		request.Entity, request.Tier = identify(r)
	}
	m.gate.Decide(r.Context(), &request, c)
	kept := c.Route.Idempotency != nil
	if names := c.Policy.Upstream.Names(); names != nil && c.Outcome.Passes() {
		r, kept = c.tell(r, names), true
	}
	if kept && c.Outcome.Passes() {
		r = r.WithContext(withCall(r.Context(), c))
	}
	switch {
	case !c.Outcome.Passes():
		c.Headers(w.Header())
		if refuse := m.gate.config.Refuse; refuse != nil {
			refuse(w, r, c)
		} else {
			c.Refuse(w)
		}
	case len(c.Decision.Results) == 0:
		m.next.ServeHTTP(w, r)
	case c.Decision.ID != "":
		c.Headers(w.Header())
		m.withLease(w, r, c)
	default:
		c.Headers(w.Header())
		m.plain(w, r, c)
	}
	// After a panic the call is left to the garbage collector, and so is one
	// that a handler may still know, or a store that has not answered.
	if !kept && c.Err == nil && c.Decision.Source < sluice.Degraded {
		calls.Put(c)
	}
}

// plain serves a request whose cost is settled.
func (m *handler) plain(w http.ResponseWriter, r *http.Request, c *Call) {
	served := false
	defer func() {
		if !served {
			m.gate.broken(r.Context(), c, nil, recover())
		}
	}()
	m.next.ServeHTTP(w, r)
	served = true
	if c.waived {
		m.gate.waive(r.Context(), c)
	}
}

// withLease serves a request that holds a lease.
func (m *handler) withLease(w http.ResponseWriter, r *http.Request, c *Call) {
	s := m.gate.hold(r.Context(), c)
	served := false
	defer func() {
		if !served {
			m.gate.broken(r.Context(), c, s, recover())
		}
	}()
	sw := &settlingWriter{ResponseWriter: w, settlement: s}
	m.next.ServeHTTP(sw, r.WithContext(withSettlement(r.Context(), s)))
	served = true
	sw.headers()
	s.commit(r.Context(), c)
}
