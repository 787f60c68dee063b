package server

import (
	"context"
	"net/http"
)

var namespaceRoutes = []route{
	{"GET /v1/namespaces", RoleAdmin, about(listNamespaces)},
	{"GET /v1/namespaces/{name}", RoleAdmin, about(getNamespace)},
	{"PUT /v1/namespaces/{name}", RoleAdmin, about(createNamespace)},
	{"DELETE /v1/namespaces/{name}", RoleAdmin, about(deleteNamespace)},
	{"POST /v1/cache/flush", RoleAdmin, about(flushCache)},
}

// everywhere refuses callers who may use one namespace only.
func (q *stored) everywhere() error {
	if q.caller.namespace != "" {
		return &forbiddenError{"the key belongs to one namespace"}
	}
	return nil
}

func listNamespaces(q *stored, w http.ResponseWriter) error {
	if err := q.everywhere(); err != nil {
		return err
	}
	page, err := q.catalog.Namespaces(q.Context(), q.cursor, q.most)
	page.Namespaces = orEmpty(page.Namespaces)
	return list(w, page, err)
}

func getNamespace(q *stored, w http.ResponseWriter) error {
	if err := q.everywhere(); err != nil {
		return err
	}
	n, err := q.catalog.Namespace(q.Context(), q.PathValue("name"))
	return show(w, http.StatusOK, n, n.Version, err)
}

// createNamespace makes one; one that is there already stays as it is.
func createNamespace(q *stored, w http.ResponseWriter) error {
	if err := q.everywhere(); err != nil {
		return err
	}
	body, err := read[struct {
		Description string `json:"description"`
	}](q.Request)
	if err != nil {
		return err
	}
	name := q.PathValue("name")
	err = q.catalog.Edit(name, by(q.Request, q.caller)).CreateNamespace(q.Context(), body.Description)
	if err != nil && !isExists(err) {
		return err
	}
	n, err := q.catalog.Namespace(q.Context(), name)
	return show(w, http.StatusOK, n, n.Version, err)
}

// deleteNamespace removes a namespace with everything in it.
func deleteNamespace(q *stored, w http.ResponseWriter) error {
	if err := q.everywhere(); err != nil {
		return err
	}
	name := q.PathValue("name")
	n, err := q.catalog.Edit(name, by(q.Request, q.caller)).CloseNamespace(q.Context())
	if err != nil {
		return err
	}
	if err := settled(q.Context(), &n); err != nil {
		return err
	}
	return q.erasing(w, func(ctx context.Context, e *erasure) error {
		return q.emptyNamespace(ctx, name, q.cursor, e)
	})
}

// flushCache makes every node forget what it remembers of the catalog, in all
// namespaces.
func flushCache(q *stored, w http.ResponseWriter) error {
	if err := q.everywhere(); err != nil {
		return err
	}
	return done(w, q.catalog.Flush(q.Context()))
}
