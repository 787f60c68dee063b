package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

var keyRoutes = []route{
	{"GET /v1/keys", RoleAdmin, about(listKeys)},
	{"POST /v1/keys", RoleAdmin, with(createKey)},
	{"GET /v1/keys/{id}", RoleAdmin, about(getKey)},
	{"PATCH /v1/keys/{id}", RoleAdmin, with(changeKey)},
	{"DELETE /v1/keys/{id}", RoleAdmin, about(deleteKey)},
	{"POST /v1/keys/{id}/revoke", RoleAdmin, about(revokeKey)},
	{"POST /v1/keys/{id}/rotate", RoleAdmin, about(rotateKey)},
}

func listKeys(q *stored, w http.ResponseWriter) error {
	page, err := q.catalog.Keys(q.Context(), q.namespace, q.query.Get("entity"), q.cursor, q.most)
	page.Keys = orEmpty(page.Keys)
	return list(w, page, err)
}

// keyBody is what callers say about a key.
type keyBody struct {
	Entity  string    `json:"entity"`
	Name    string    `json:"name"`
	Tier    string    `json:"tier"`
	Scopes  []string  `json:"scopes"`
	Expires time.Time `json:"expires"`
	Create  bool      `json:"create"` // the entity, if there is none
}

// showKey answers a new key, the only time that its secret is shown.
func showKey(w http.ResponseWriter, k catalog.Key, clear string) error {
	w.Header().Set("Cache-Control", "no-store")
	return show(w, http.StatusCreated, client.NewKey{Key: k, Secret: clear}, k.Version, nil)
}

// createKey makes a key. A name that is not an entity's is more likely a slip
// than somebody new, and would be a key that no limit was meant for.
func createKey(q *stored, w http.ResponseWriter, b *keyBody) error {
	_, err := q.catalog.Entity(q.Context(), q.namespace, b.Entity)
	if isNotFound(err) && b.Create {
		_, err = q.edit().CreateEntity(q.Context(), catalog.Entity{ID: b.Entity})
	}
	switch {
	case isNotFound(err):
		return &referenceError{fmt.Errorf("%w: create it first, or send \"create\": true", err)}
	case err != nil && !isExists(err): // somebody else was faster
		return err
	}
	k, clear, err := q.edit().CreateKey(q.Context(), catalog.Key{
		Entity: b.Entity, Name: b.Name, Tier: b.Tier, Scopes: b.Scopes, Expires: b.Expires,
	})
	if err != nil {
		return q.refers(err)
	}
	return showKey(w, k, clear)
}

func getKey(q *stored, w http.ResponseWriter) error {
	k, err := q.catalog.Key(q.Context(), q.namespace, q.PathValue("id"))
	return show(w, http.StatusOK, k, k.Version, err)
}

// key is the one of the path, if it has the version that If-Match asks for.
func (q *stored) key() (catalog.Key, error) {
	k, err := q.catalog.Key(q.Context(), q.namespace, q.PathValue("id"))
	if err == nil && q.version != 0 && k.Version != q.version {
		err = fmt.Errorf("key %s has version %d: %w", k.ID, k.Version, catalog.ErrConflict)
	}
	return k, err
}

// changeKey sets the name, tier, scopes and expiry of a key; what the body
// leaves out stays.
func changeKey(q *stored, w http.ResponseWriter, b *struct {
	Name    *string    `json:"name"`
	Tier    *string    `json:"tier"`
	Scopes  *[]string  `json:"scopes"`
	Expires *time.Time `json:"expires"`
}) error {
	k, err := q.key()
	if err != nil {
		return err
	}
	if b.Name != nil {
		k.Name = *b.Name
	}
	if b.Tier != nil {
		k.Tier = *b.Tier
	}
	if b.Scopes != nil {
		k.Scopes = *b.Scopes
	}
	if b.Expires != nil {
		k.Expires = *b.Expires
	}
	k, err = q.edit().UpdateKey(q.Context(), k)
	return show(w, http.StatusOK, k, k.Version, q.refers(err))
}

func deleteKey(q *stored, w http.ResponseWriter) error {
	k, err := q.key()
	if err != nil {
		return err
	}
	return done(w, q.edit().DeleteKey(q.Context(), k.ID))
}

func revokeKey(q *stored, w http.ResponseWriter) error {
	k, err := q.key()
	if err != nil {
		return err
	}
	k, err = q.edit().RevokeKey(q.Context(), k.ID)
	return show(w, http.StatusOK, k, k.Version, err)
}

// rotateKey makes a new key in place of an old one, which works on for a while.
func rotateKey(q *stored, w http.ResponseWriter) error {
	b, err := readOptional[struct {
		Grace duration `json:"grace"`
	}](q.Request)
	if err != nil {
		return err
	}
	old, err := q.key()
	if err != nil {
		return err
	}
	k, clear, err := q.edit().RotateKey(q.Context(), old.ID, time.Duration(b.Grace))
	if errors.Is(err, catalog.ErrKey) {
		return fmt.Errorf("key %s: %w", old.ID, errKeyUnusable)
	}
	if err != nil {
		return err
	}
	return showKey(w, k, clear)
}
