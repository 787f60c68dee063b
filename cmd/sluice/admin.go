package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/server"
)

// readyTimeout is how long a check of readiness may take.
const readyTimeout = 2 * time.Second

// admin answers what operators ask: metrics and health, and profiles where
// only operators can reach it. Anybody may ask about health; for the rest,
// guard lets in who may.
func (s *stack) admin(draining *atomic.Bool, profiles bool, guard func(http.Handler) (http.Handler, error)) (*http.ServeMux, error) {
	inner := http.NewServeMux()
	inner.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Registry: s.registry}))
	if profiles { // but not the command line, which may have a token
		inner.HandleFunc("/debug/pprof/", pprof.Index)
		inner.HandleFunc("/debug/pprof/profile", pprof.Profile)
		inner.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		inner.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	guarded, err := guard(inner)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", guarded)
	mux.HandleFunc("GET /healthz", s.alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.ready(w, r, draining) })
	return mux, nil
}

// onAdmin is who may use the admin address: everybody of this machine if only
// they can reach it, else who has a token or a certificate.
func (l *listening) onAdmin(a server.Access) server.Access {
	a.Open, a.Certificates = loopback(l.admin), server.RoleNone
	if l.clientCA != "" {
		a.Certificates = server.RoleRead
	}
	return a
}

// alive says that the process runs.
func (s *stack) alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n")) //nolint:errcheck // the client is gone
}

// readiness is what /readyz answers.
type readiness struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"` // "ok", or what is wrong
	Store  *storeState       `json:"store,omitempty"`
}

// storeState is how it goes with a shared store.
type storeState struct {
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// storeState returns a function that tells the state of a shared store, or nil
// if there is none.
func (s *stack) storeState() func() string {
	if s.degraded == nil {
		return nil
	}
	return func() string { return s.degraded.State().String() }
}

// storeReady reports whether a shared store is asked.
func (s *stack) storeReady() bool {
	if s.degraded == nil {
		return true
	}
	state := s.degraded.State()
	return state != failover.Open && state != failover.HalfOpen
}

// ready reports whether requests should be sent here: 503 while it shuts down, or
// while the store or the catalog does not answer. A policy file that is wrong
// is shown, but the policy before it is in force, so it does not count.
func (s *stack) ready(w http.ResponseWriter, r *http.Request, draining *atomic.Bool) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	answer := readiness{Ready: true, Checks: map[string]string{"policy": "ok"}}
	check := func(name string, err error) {
		answer.Checks[name] = "ok"
		if err != nil {
			answer.Ready = false
			answer.Checks[name] = err.Error()
		}
	}
	check("store", s.checkStore(ctx))
	_, err := s.catalog.Namespace(ctx, catalog.DefaultNamespace)
	check("catalog", err)
	if st := s.policy.Status(); st.Err != nil {
		answer.Checks["policy"] = "the file was rejected and the previous policy stays in effect: " + st.Error
	}
	if draining.Load() {
		check("shutdown", errors.New("shutting down"))
	}
	if s.degraded != nil {
		st := s.degraded.Stats()
		answer.Store = &storeState{st.State.String(), st.Since}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client is gone
}

// checkStore looks at a bucket that nobody uses.
func (s *stack) checkStore(ctx context.Context) error {
	d, err := s.limiter.Peek(ctx, sluice.Demand{
		Key:      sluice.Key{Namespace: "$sluice", Entity: "readyz", Limit: "check"},
		Limit:    sluice.Per(1, time.Second),
		Critical: true,
	})
	if err == nil && d.Source != sluice.FromStore {
		err = errors.New("it does not answer; decisions are " + d.Source.String())
	}
	return err
}
