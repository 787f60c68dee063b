package server

import (
	"net/http"

	"github.com/sluice-go/sluice/client"
)

// nodes lists those that share the store.
func (s *server) nodes(w http.ResponseWriter, r *http.Request, c *caller) error {
	if _, err := s.namespaceOf(r, c); err != nil {
		return err
	}
	answer := client.NodeList{Nodes: []client.Presence{}}
	if s.listNodes != nil {
		answer = s.listNodes()
	}
	if s.storeState != nil {
		answer.Store = s.storeState()
	}
	return list(w, answer, nil)
}
