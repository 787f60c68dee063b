package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func TestKeys(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.PutTier(ctx, catalog.Tier{Name: "pro"}))(t)
	must(c.SetLimits(ctx, catalog.Scope{Tier: "pro"}, limits("rpm", "10/hour"), 0))(t)
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	k := must(c.CreateKey(ctx, catalog.Key{Entity: "alice", Name: "ci", Tier: "pro", Scopes: []string{"sluice:take"}, Expires: expires}, true))(t)
	if !strings.HasPrefix(k.Secret, "slk_"+k.ID) || !k.Expires.Equal(expires) || k.Name != "ci" || k.Tier != "pro" {
		t.Errorf("%+v", k)
	}
	if r := s.raw(t, "POST", "/v1/keys", `{"entity":"alice"}`, bearer(adminToken)); r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a key may be cached: %v", r.header)
	}
	if got := must(c.Key(ctx, k.ID))(t); got.ID != k.ID || got.Namespace != "default" {
		t.Errorf("%+v", got)
	}
	if page := must(c.Keys(ctx, "alice", client.Page{Max: 1}))(t); len(page.Keys) != 1 || page.Next == "" {
		t.Errorf("%+v", page)
	}

	holder := s.as(t, k.Secret)
	if d := must(holder.Take(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(8))}))(t); !d.Allowed { // the tier of the key
		t.Errorf("%+v", d)
	}
	me := must(holder.Me(ctx, ""))(t)
	if me.Entity != "alice" || me.Tier != "pro" || me.Alarm != catalog.AlarmWarning || len(me.Limits) != 1 || !me.Limits[0].Upgrade ||
		me.Limits[0].Remaining.Thousandths() != tokens(2) || me.Limits[0].Utilization != 80 || me.Limits[0].Node.Allowed != 1 {
		t.Errorf("%+v", me)
	}

	name := "renamed"
	changed := must(c.ChangeKey(ctx, k.ID, client.KeyChange{Name: &name}, k.Version))(t)
	if changed.Name != name || len(changed.Scopes) != 1 || !changed.Expires.Equal(expires) {
		t.Errorf("%+v", changed)
	}
	if _, err := c.ChangeKey(ctx, k.ID, client.KeyChange{Name: &name}, k.Version); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("%v", err)
	}
	tier := "gold"
	var e *client.Error
	if _, err := c.ChangeKey(ctx, k.ID, client.KeyChange{Tier: &tier}, 0); !errors.As(err, &e) || e.Status != 422 {
		t.Errorf("%v", err)
	}

	// Both keys work in the grace period.
	fresh := must(c.RotateKey(ctx, k.ID, 30*time.Minute))(t)
	if fresh.Replaces != k.ID || fresh.Secret == k.Secret {
		t.Errorf("%+v", fresh)
	}
	for _, secret := range []string{k.Secret, fresh.Secret} {
		must(s.as(t, secret).Peek(ctx, client.Take{Entity: "alice"}))(t)
	}
	if old := must(c.Key(ctx, k.ID))(t); time.Until(old.Expires) > 31*time.Minute {
		t.Errorf("%+v", old)
	}
	if revoked := must(c.RevokeKey(ctx, fresh.ID))(t); revoked.Revoked.IsZero() {
		t.Errorf("%+v", revoked)
	}
	if _, err := s.as(t, fresh.Secret).Peek(ctx, client.Take{Entity: "alice"}); !errors.Is(err, catalog.ErrKey) {
		t.Errorf("a revoked key: %v", err)
	}
	if _, err := c.RotateKey(ctx, fresh.ID, 0); !errors.As(err, &e) || e.Status != 409 || e.Code != "key_unusable" {
		t.Errorf("rotating a revoked key: %v", err)
	}
	if err := c.DeleteKey(ctx, fresh.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Key(ctx, fresh.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// No secret is in an answer, but for the one that makes it, nor in the log.
func TestSecretsStayInside(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	k := must(c.CreateKey(ctx, catalog.Key{Entity: "alice", Scopes: []string{"sluice:admin"}}, true))(t)
	fresh := must(c.RotateKey(ctx, k.ID, time.Minute))(t)
	must(c.RevokeKey(ctx, k.ID))(t)
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour"), 0))(t)
	secrets := []string{k.Secret, fresh.Secret, strings.TrimPrefix(k.Secret, "slk_"+k.ID+"_"), strings.TrimPrefix(fresh.Secret, "slk_"+fresh.ID+"_"), adminToken, serviceToken, readToken}
	for _, token := range []string{adminToken, readToken, k.Secret, fresh.Secret, adminToken + "x", "slk_" + fresh.ID + "_WRONG"} {
		for _, path := range []string{"/v1/keys", "/v1/keys/" + k.ID, "/v1/keys/" + fresh.ID, "/v1/audit?max=1000", "/v1/me", "/v1/status/alice", "/v1/namespaces", "/v1/nothing"} {
			r := s.raw(t, "GET", path, "", bearer(token))
			for _, secret := range secrets {
				if strings.Contains(r.body, secret) {
					t.Errorf("%s has a secret: %s", path, r.body)
				}
				for name, values := range r.header {
					if strings.Contains(strings.Join(values, " "), secret) {
						t.Errorf("%s has a secret in %s", path, name)
					}
				}
			}
		}
		s.raw(t, "POST", "/v1/take", `{"entity":"alice","`+token+`":1}`, bearer(token))
	}
	for _, secret := range secrets {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has a secret: %s", s.log)
		}
	}
}

// A key is for an entity that there is, unless it is to be made.
func TestKeysForEntitiesThatDoNotExist(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	if r := s.raw(t, "POST", "/v1/keys", `{"entity":"alcie"}`, bearer(adminToken)); r.status != 422 || !strings.Contains(r.body, `send \"create\": true`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if page := must(c.Keys(ctx, "", client.Page{}))(t); len(page.Keys) != 0 {
		t.Errorf("%+v", page.Keys)
	}
	for range 2 { // the second finds the entity
		if r := s.raw(t, "POST", "/v1/keys", `{"entity":"alice","create":true}`, bearer(adminToken)); r.status != 201 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	must(c.Entity(ctx, "alice"))(t)
	if r := s.raw(t, "POST", "/v1/keys", `{"entity":"alice"}`, bearer(adminToken)); r.status != 201 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
