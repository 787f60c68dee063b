package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/badinput"
)

var entityRoutes = []route{
	{"GET /v1/entities", RoleRead, about(listEntities)},
	{"POST /v1/entities", RoleAdmin, with(createEntity)},
	{"GET /v1/entities/{id}", RoleRead, about(getEntity)},
	{"PUT /v1/entities/{id}", RoleAdmin, with(putEntity)},
	{"DELETE /v1/entities/{id}", RoleAdmin, about(deleteEntity)},
}

func listEntities(q *stored, w http.ResponseWriter) error {
	page, err := q.catalog.Entities(q.Context(), q.namespace, catalog.EntityQuery{
		Parent: q.query.Get("parent"), Tier: q.query.Get("tier"), Cursor: q.cursor, Max: q.most,
	})
	page.Entities = orEmpty(page.Entities)
	return list(w, page, err)
}

// entityBody is what callers say about an entity; the rest is the catalog's.
type entityBody struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Parent   string            `json:"parent"`
	Cascade  bool              `json:"cascade"`
	Tier     string            `json:"tier"`
	Metadata map[string]string `json:"metadata"`
}

func (b *entityBody) entity(version int64) catalog.Entity {
	return catalog.Entity{
		ID: b.ID, Name: b.Name, Parent: b.Parent, Cascade: b.Cascade, Tier: b.Tier, Metadata: b.Metadata, Version: version,
	}
}

func createEntity(q *stored, w http.ResponseWriter, body *entityBody) error {
	e, err := q.edit().CreateEntity(q.Context(), body.entity(0))
	if err != nil {
		return q.refers(err)
	}
	w.Header().Set("Location", "/v1/entities/"+url.PathEscape(e.ID))
	return show(w, http.StatusCreated, e, e.Version, nil)
}

func getEntity(q *stored, w http.ResponseWriter) error {
	e, err := q.catalog.Entity(q.Context(), q.namespace, q.PathValue("id"))
	return show(w, http.StatusOK, e, e.Version, err)
}

// putEntity changes an entity, or makes it if there is none.
func putEntity(q *stored, w http.ResponseWriter, body *entityBody) error {
	if id := q.PathValue("id"); body.ID == "" {
		body.ID = id
	} else if body.ID != id {
		return badinput.Field("id", body.ID, "must be that of the path, or left out")
	}
	if q.version == 0 {
		e, err := q.putAny(body)
		return show(w, http.StatusOK, e, e.Version, err)
	}
	if _, err := q.catalog.Entity(q.Context(), q.namespace, body.ID); err != nil {
		return err
	}
	e, err := q.edit().UpdateEntity(q.Context(), body.entity(q.version))
	return show(w, http.StatusOK, e, e.Version, q.refers(err))
}

// putAny changes the entity whatever its version, or makes it.
func (q *stored) putAny(body *entityBody) (e catalog.Entity, err error) {
	for range 3 { // somebody else may make or remove it in between
		if _, err = q.catalog.Entity(q.Context(), q.namespace, body.ID); isNotFound(err) {
			if e, err = q.edit().CreateEntity(q.Context(), body.entity(0)); isExists(err) {
				continue
			}
		} else if err == nil {
			e, err = q.edit().UpdateEntity(q.Context(), body.entity(0))
		}
		break
	}
	return e, q.refers(err)
}

// deleteEntity removes an entity, with ?erase=true everything about it.
func deleteEntity(q *stored, w http.ResponseWriter) error {
	children, err := readChildren(q.query.Get("children"))
	if err != nil {
		return err
	}
	id := q.PathValue("id")
	erase, err := q.flag("erase")
	if err != nil {
		return err
	}
	if erase {
		if err := q.noVersion(); err != nil {
			return err
		}
		return q.erasing(w, func(ctx context.Context, e *erasure) error { return q.erase(ctx, id, children, e) })
	}
	return done(w, q.edit().DeleteEntity(q.Context(), id, q.version, children))
}

func readChildren(s string) (catalog.Children, error) {
	switch s {
	case "", "refuse":
		return catalog.RefuseChildren, nil
	case "delete":
		return catalog.DeleteChildren, nil
	case "lift":
		return catalog.LiftChildren, nil
	}
	return 0, badinput.Field("children", s, "must be refuse, delete or lift")
}
