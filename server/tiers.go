package server

import (
	"net/http"

	"github.com/sluice-go/sluice/catalog"
)

var tierRoutes = []route{
	{"GET /v1/tiers", RoleRead, about(listTiers)},
	{"GET /v1/tiers/{name}", RoleRead, about(getTier)},
	{"PUT /v1/tiers/{name}", RoleAdmin, with(putTier)},
	{"DELETE /v1/tiers/{name}", RoleAdmin, about(deleteTier)},
}

func listTiers(q *stored, w http.ResponseWriter) error {
	page, err := q.catalog.Tiers(q.Context(), q.namespace, q.cursor, q.most)
	page.Tiers = orEmpty(page.Tiers)
	return list(w, page, err)
}

func getTier(q *stored, w http.ResponseWriter) error {
	t, err := q.catalog.Tier(q.Context(), q.namespace, q.PathValue("name"))
	return show(w, http.StatusOK, t, t.Version, err)
}

func putTier(q *stored, w http.ResponseWriter, body *struct {
	Description string `json:"description"`
}) error {
	t, err := q.edit().PutTier(q.Context(), catalog.Tier{Name: q.PathValue("name"), Description: body.Description, Version: q.version})
	return show(w, http.StatusOK, t, t.Version, err)
}

func deleteTier(q *stored, w http.ResponseWriter) error {
	return done(w, q.edit().DeleteTier(q.Context(), q.PathValue("name"), q.version))
}
