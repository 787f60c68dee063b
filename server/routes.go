package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/policy"
)

// route is one thing that the server does: a pattern of net/http, the roles of
// which it needs one, and what does it. An error it returns is answered by
// refuse. Who comes with RoleTake alone is held to their own entity.
type route struct {
	pattern string
	role    Role
	handle  handler
}

type handler func(*server, http.ResponseWriter, *http.Request, *caller) error

// large are the routes whose bodies may be longer than others'.
var large = map[string]int64{
	"POST /v1/plan": policy.MaxFile, "POST /v1/apply": policy.MaxFile,
	"POST /v1/slots/batch": 32 << 20, "POST /v1/replays/complete": 4 << 20, "POST /v1/replays/settle": 4 << 20,
}

// slow are the routes that may take longer than the time in which others must
// be answered: what they do grows with what is stored or sent.
var slow = map[string]time.Duration{
	"POST /v1/plan": time.Minute, "POST /v1/apply": time.Minute, "POST /v1/slots/batch": 2 * time.Minute,
	"POST /v1/slots/reconcile": 2 * time.Minute, "GET /v1/audit/archive": 10 * time.Minute, "DELETE /v1/audit": 10 * time.Minute,
	"DELETE /v1/entities/{id}": 2 * time.Minute, "DELETE /v1/namespaces/{name}": 10 * time.Minute,
}

// routes are all of them. openapi.yaml describes the same.
var routes = [][]route{
	takeRoutes, leaseRoutes, lookRoutes, entityRoutes, tierRoutes, namespaceRoutes, limitRoutes,
	keyRoutes, recordRoutes, slotRoutes, replayRoutes, recordedRoutes, sanctionRoutes,
}

// public are what everybody may get.
var public = map[string]http.HandlerFunc{
	"/{$}": start, "/healthz": health, "/v1/openapi.yaml": describe, "/v1/openapi.json": describeJSON,
}

func (s *server) mux(routes ...[]route) *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, group := range routes {
		for _, rt := range group {
			method, path, _ := strings.Cut(rt.pattern, " ")
			methods[path] = append(methods[path], method)
			mux.Handle(rt.pattern, s.serve(rt))
		}
	}
	for pattern, other := range s.behind {
		mux.Handle(pattern, s.serve(route{pattern, RoleService, func(_ *server, w http.ResponseWriter, r *http.Request, _ *caller) error {
			other.ServeHTTP(w, r)
			return nil
		}}))
	}
	for path, known := range methods {
		mux.HandleFunc(path, only(strings.Join(known, ", ")))
	}
	for path, handle := range public {
		mux.HandleFunc("GET "+path, handle)
		mux.HandleFunc(path, only("GET, HEAD"))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem{Status: http.StatusNotFound, Code: "no_such_path", Detail: "no such path; see /v1/openapi.yaml"}.write(w)
	})
	return mux
}

// serve lets in who may, and answers errors.
func (s *server) serve(rt route) http.Handler {
	most := int64(maxBody)
	if n, ok := large[rt.pattern]; ok {
		most = n
	}
	longer := slow[rt.pattern]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := s.identify
		if rt.role == RoleNone {
			who = s.self
		}
		err := once(r.Header)
		var c *caller
		if err == nil {
			c, err = who(r)
		}
		if errors.Is(err, catalog.ErrKey) {
			s.logins.Failed(r.Context(), "api", "not a valid token or API key", "ip:"+by(r, anybody).From)
		}
		if err == nil && rt.role != RoleNone && c.role&rt.role == 0 {
			err = &forbiddenError{"this requires the role " + rt.role.String() + "; " + c.name + " has " + c.role.String()}
		}
		if err == nil {
			if rt.role&RoleTake != 0 && c.role&(rt.role&^RoleTake|RoleService) == 0 {
				c.own = true // only API keys get here, and each request has its own caller
			}
			if longer > 0 {
				allow(w, longer)
			}
			r.Body = http.MaxBytesReader(w, r.Body, most)
			err = rt.handle(s, w, r, c)
		}
		if err != nil {
			s.refuse(w, r, err)
		}
	})
}

// once refuses a request that says twice who is calling or what it is about:
// whatever is in front may have gone by the other one.
func once(h http.Header) error {
	for _, name := range [...]string{"Authorization", "Sluice-Namespace"} {
		if n := len(h[name]); n > 1 {
			return badinput.Field(name, n, "must be there once")
		}
	}
	return nil
}

// allow gives a request more time than others, from now on.
func allow(w http.ResponseWriter, d time.Duration) {
	control := http.NewResponseController(w)
	until := time.Now().Add(d)
	control.SetReadDeadline(until)  //nolint:errcheck // then it has as much as the others
	control.SetWriteDeadline(until) //nolint:errcheck // the same
}
