package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

var limitRoutes = []route{
	{"GET /v1/limits", RoleRead, about(listLimits)},
	{"GET /v1/limits/system", RoleRead, about(getLimits)},
	{"PUT /v1/limits/system", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/system", RoleAdmin, about(deleteLimits)},
	{"GET /v1/limits/resources/{resource}", RoleRead, about(getLimits)},
	{"PUT /v1/limits/resources/{resource}", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/resources/{resource}", RoleAdmin, about(deleteLimits)},
	{"GET /v1/limits/tiers/{tier}", RoleRead, about(getLimits)},
	{"PUT /v1/limits/tiers/{tier}", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/tiers/{tier}", RoleAdmin, about(deleteLimits)},
	{"GET /v1/limits/tiers/{tier}/{resource}", RoleRead, about(getLimits)},
	{"PUT /v1/limits/tiers/{tier}/{resource}", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/tiers/{tier}/{resource}", RoleAdmin, about(deleteLimits)},
	{"GET /v1/limits/entities/{entity}", RoleRead, about(getLimits)},
	{"PUT /v1/limits/entities/{entity}", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/entities/{entity}", RoleAdmin, about(deleteLimits)},
	{"GET /v1/limits/entities/{entity}/{resource}", RoleRead, about(getLimits)},
	{"PUT /v1/limits/entities/{entity}/{resource}", RoleAdmin, with(putLimits)},
	{"DELETE /v1/limits/entities/{entity}/{resource}", RoleAdmin, about(deleteLimits)},

	{"GET /v1/overrides", RoleRead, about(listOverrides)},
	{"PUT /v1/overrides/{entity}/{limit}", RoleAdmin, with(putOverride)},
	{"DELETE /v1/overrides/{entity}/{limit}", RoleAdmin, about(deleteOverride)},
}

// levels are where limits can be listed.
var levels = map[string]sluice.Level{
	"": sluice.LevelEntity, "entity": sluice.LevelEntity, "tier": sluice.LevelTier,
	"resource": sluice.LevelResource, "system": sluice.LevelSystem,
}

func listLimits(q *stored, w http.ResponseWriter) error {
	level, ok := levels[q.query.Get("level")]
	if !ok {
		return badinput.Field("level", q.query.Get("level"), "must be entity, tier, resource or system")
	}
	page, err := q.catalog.ListLimits(q.Context(), q.namespace, catalog.LimitsQuery{
		Level: level, Entity: q.query.Get("entity"), Tier: q.query.Get("tier"), Resource: q.query.Get("resource"),
		Cursor: q.cursor, Max: q.most,
	})
	page.Limits = orEmpty(page.Limits)
	return list(w, page, err)
}

// scope is what the path of a request names.
func (q *stored) scope() catalog.Scope {
	return catalog.Scope{Entity: q.PathValue("entity"), Tier: q.PathValue("tier"), Resource: q.PathValue("resource")}
}

func getLimits(q *stored, w http.ResponseWriter) error {
	l, err := q.catalog.Limits(q.Context(), q.namespace, q.scope())
	return show(w, http.StatusOK, l, l.Version, err)
}

// settingBody is one limit with how it is applied.
type settingBody struct {
	Rule          string `json:"rule"`
	OnUnavailable string `json:"onUnavailable"`
	Critical      bool   `json:"critical"`
	Shadow        bool   `json:"shadow"`
	Announce      *bool  `json:"announce"`
}

func (b *settingBody) setting(field string) (catalog.Setting, error) {
	limit, err := sluice.Parse(b.Rule)
	if err != nil {
		return catalog.Setting{}, badinput.Field(field+"rule", b.Rule, err.Error())
	}
	when, err := catalog.ParseOnUnavailable(b.OnUnavailable)
	if err != nil {
		return catalog.Setting{}, badinput.Field(field+"onUnavailable", b.OnUnavailable, "must be allow, deny or degrade")
	}
	return catalog.Setting{
		Limit: limit, OnUnavailable: when, Critical: b.Critical, Shadow: b.Shadow, Unannounced: b.Announce != nil && !*b.Announce,
	}, nil
}

// namedSetting is a setting, or the text of its rule alone.
type namedSetting struct{ settingBody }

func (n *namedSetting) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &n.Rule)
	}
	return decodeBytes(b, &n.settingBody)
}

// putLimits stores all limits of a place.
func putLimits(q *stored, w http.ResponseWriter, body *struct {
	Limits map[string]namedSetting `json:"limits"`
}) error {
	limits := catalog.Limits{}
	for name, b := range body.Limits {
		var err error
		if limits[name], err = b.setting("limits." + excerpt.Of(name) + "."); err != nil {
			return err
		}
	}
	l, err := q.edit().SetLimits(q.Context(), q.scope(), limits, q.version)
	return show(w, http.StatusOK, l, l.Version, q.refers(err))
}

func deleteLimits(q *stored, w http.ResponseWriter) error {
	return done(w, q.edit().RemoveLimits(q.Context(), q.scope(), q.version))
}

func listOverrides(q *stored, w http.ResponseWriter) error {
	page, err := q.catalog.Overrides(q.Context(), q.namespace, q.query.Get("entity"), q.cursor, q.most)
	page.Overrides = orEmpty(page.Overrides)
	return list(w, page, err)
}

// putOverride sets another number for one limit of one entity, for a while.
func putOverride(q *stored, w http.ResponseWriter, body *struct {
	settingBody
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	For      duration  `json:"for"`
	Reason   string    `json:"reason"`
}) error {
	setting, err := body.setting("")
	if err != nil {
		return err
	}
	until := body.Until
	if body.For > 0 {
		if !until.IsZero() {
			return badinput.Field("for", time.Duration(body.For), "cannot be combined with until")
		}
		until = time.Now().Add(time.Duration(body.For))
	}
	if err := q.noVersion(); err != nil {
		return err
	}
	who := by(q.Request, q.caller)
	if body.Reason != "" {
		who.Reason = body.Reason
	}
	o, err := q.catalog.Edit(q.namespace, who).SetOverride(q.Context(), catalog.Override{
		Entity: q.PathValue("entity"), Limit: q.PathValue("limit"), Resource: body.Resource, Setting: setting, Until: until,
	})
	return show(w, http.StatusOK, o, o.Version, err)
}

func deleteOverride(q *stored, w http.ResponseWriter) error {
	if err := q.noVersion(); err != nil {
		return err
	}
	return done(w, q.edit().RemoveOverride(q.Context(), q.PathValue("entity"), q.PathValue("limit"), q.query.Get("resource")))
}
