package server

import (
	"net/http"

	"github.com/sluice-go/sluice/catalog"
)

var tierRoutes = []route{
	{"GET /v1/tiers", RoleRead, about(listTiers)},
	{"GET /v1/tiers/{name}", RoleRead, about(getTier)},
	{"PUT /v1/tiers/{name}", RoleAdmin, about(putTier)},
	{"DELETE /v1/tiers/{name}", RoleAdmin, about(deleteTier)},
}

func listTiers(q *stored, w http.ResponseWriter) error {
	most, err := q.max()
	if err != nil {
		return err
	}
	page, err := q.catalog.Tiers(q.Context(), q.namespace, q.query.Get("cursor"), most)
	page.Tiers = orEmpty(page.Tiers)
	return list(w, page, err)
}

func getTier(q *stored, w http.ResponseWriter) error {
	t, err := q.catalog.Tier(q.Context(), q.namespace, q.PathValue("name"))
	if err != nil {
		return err
	}
	return show(w, http.StatusOK, t, t.Version)
}

func putTier(q *stored, w http.ResponseWriter) error {
	body, err := read[struct {
		Description string `json:"description"`
	}](q.Request)
	if err != nil {
		return err
	}
	version, err := q.version()
	if err != nil {
		return err
	}
	t, err := q.edit().PutTier(q.Context(), catalog.Tier{Name: q.PathValue("name"), Description: body.Description, Version: version})
	if err != nil {
		return err
	}
	return show(w, http.StatusOK, t, t.Version)
}

func deleteTier(q *stored, w http.ResponseWriter) error {
	version, err := q.version()
	if err != nil {
		return err
	}
	return done(w, q.edit().DeleteTier(q.Context(), q.PathValue("name"), version))
}
