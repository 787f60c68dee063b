package server

import (
	"context"
	"net/http"

	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit/abuse"
)

var sanctionRoutes = []route{
	{"GET /v1/sanctions", RoleRead, (*server).sanctions},
	{"DELETE /v1/sanctions/{entity}", RoleAdmin, (*server).liftSanction},
}

// Sanctions are bans and emergency limits: an [abuse.Guard].
type Sanctions interface {
	Namespace() string
	List() []abuse.Sanction
	Lift(ctx context.Context, entity, by string) (bool, error)
}

// guarding returns what sanctions the callers of a request's namespace, or nil.
func (s *server) guarding(r *http.Request, c *caller) (Sanctions, error) {
	namespace, err := s.namespaceOf(r, c)
	if err != nil || s.guard == nil || s.guard.Namespace() != namespace {
		return nil, err
	}
	return s.guard, nil
}

// sanctions lists those in force.
func (s *server) sanctions(w http.ResponseWriter, r *http.Request, c *caller) error {
	guard, err := s.guarding(r, c)
	answer := client.SanctionList{Sanctions: []client.Sanction{}}
	if guard != nil {
		for _, one := range guard.List() {
			answer.Sanctions = append(answer.Sanctions, client.Sanction{
				Entity: one.Entity, Kind: string(one.Kind), Reason: one.Reason, Since: one.Since, Until: one.Until,
			})
		}
	}
	return list(w, answer, err)
}

// liftSanction ends those on an entity, on all nodes.
func (s *server) liftSanction(w http.ResponseWriter, r *http.Request, c *caller) error {
	guard, err := s.guarding(r, c)
	answer := client.Lifted{}
	if guard != nil {
		answer.Lifted, err = guard.Lift(r.Context(), r.PathValue("entity"), c.name)
	}
	return list(w, answer, err)
}
