package server

import (
	"log/slog"
	"net/http"

	"github.com/sluice-go/sluice/httplimit/abuse"
)

// Guard lets those pass to next who may read in all namespaces, for what tells
// about all of them, such as metrics and profiles. API keys belong to one
// namespace, so they do not. logins may be nil; log gets what callers are not told.
func Guard(a Access, logins *abuse.Logins, log *slog.Logger, next http.Handler) (http.Handler, error) {
	door, err := newDoorman(a)
	if err != nil {
		return nil, err
	}
	s := &server{door: door, logins: logins, log: log}
	return s.serve(route{role: RoleRead, handle: func(_ *server, w http.ResponseWriter, r *http.Request, _ *caller) error {
		next.ServeHTTP(w, r)
		return nil
	}}), nil
}
