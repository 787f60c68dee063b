package catalogtest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func keyChecks() []Check {
	return []Check{
		{"keys: made once in clear, stored as a hash", checkKeys},
		{"keys: revoked everywhere within a second", checkRevoke},
		{"keys: rotated with a time in which both work", checkRotate},
		{"keys: when they were last used", checkLastUsed},
		{"keys: another secret knows none of them", checkSecret},
	}
}

func (d *desk) key(k catalog.Key) (catalog.Key, string) {
	d.t.Helper()
	created, clear, err := d.e.CreateKey(d.ctx, k)
	d.no(err)
	return created, clear
}

func checkKeys(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.tier("pro")
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	created, clear := d.key(catalog.Key{Entity: "alice", Name: "laptop", Tier: "pro", Scopes: []string{"read", "admin"}, Expires: expires})
	if !strings.Contains(clear, created.ID) || created.Namespace != d.namespace {
		t.Errorf("key %q of %+v", clear, created)
	}
	k, err := d.c.VerifyKey(d.ctx, clear)
	d.no(err)
	if k.ID != created.ID || k.Namespace != d.namespace || k.Entity != "alice" || k.Tier != "pro" || !k.HasScope("admin") || k.HasScope("write") || !k.Expires.Equal(expires) {
		t.Errorf("verified: %+v", k)
	}
	flipped := []byte(clear)
	flipped[len(flipped)-1] ^= 1
	unknown := "slk_" + strings.Repeat("a", 16) + clear[20:]
	for _, wrong := range []string{"", "x", string(flipped), unknown, clear + "x", clear[:len(clear)-1], strings.ToUpper(clear), strings.Repeat("x", 10_000)} {
		if _, err := d.c.VerifyKey(d.ctx, wrong); !errors.Is(err, catalog.ErrKey) {
			t.Errorf("%.60q: got error %v, want %v", wrong, err, catalog.ErrKey)
		}
	}
	// The secret is nowhere but in the hands of who made it.
	secret := clear[strings.LastIndexByte(clear, '_')+1:]
	page, err := d.c.Keys(d.ctx, d.namespace, "alice", "", 0)
	d.no(err)
	audit, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{Subject: "alice"})
	d.no(err)
	stored, err := d.store.Find(d.ctx, catalog.KindKey, created.ID)
	d.no(err)
	var hash struct{ Hash string }
	d.no(json.Unmarshal(stored.Data, &hash))
	for what, v := range map[string]any{"list": page, "audit": audit, "record": string(stored.Data)} {
		text, err := json.Marshal(v)
		d.no(err)
		if strings.Contains(string(text), secret) {
			t.Errorf("the secret is in the %s: %s", what, text)
		}
		if what != "record" && (hash.Hash == "" || strings.Contains(string(text), hash.Hash)) {
			t.Errorf("the hash is in the %s: %s", what, text)
		}
	}
	d.clock.Set(2 * time.Hour)
	if _, err := d.c.VerifyKey(d.ctx, clear); !errors.Is(err, catalog.ErrKey) {
		t.Errorf("after its expiry: got error %v", err)
	}
	d.no(d.e.DeleteKey(d.ctx, created.ID))
	_, err = d.c.Key(d.ctx, d.namespace, created.ID)
	d.is("after deleting", err, catalog.ErrNotFound)
}

func checkRevoke(t *testing.T, open Open) {
	d := newDesk(t, open)
	other := d.node(open)
	created, clear := d.key(catalog.Key{Entity: "alice"})
	other.soon("the other node watches", func() bool { return other.c.Stats().Watching })
	_, err := other.c.VerifyKey(other.ctx, clear)
	d.no(err)
	_, err = d.c.VerifyKey(d.ctx, clear)
	d.no(err)
	k, err := d.e.RevokeKey(d.ctx, created.ID)
	d.no(err)
	if k.Revoked.IsZero() {
		t.Errorf("revoked: %+v", k)
	}
	_, err = d.c.VerifyKey(d.ctx, clear)
	d.is("here at once", err, catalog.ErrKey)
	other.soon("revoked on the other node", func() bool {
		_, err := other.c.VerifyKey(other.ctx, clear)
		return errors.Is(err, catalog.ErrKey)
	})
	_, _, err = d.e.RotateKey(d.ctx, created.ID, 0)
	d.is("rotating a revoked key", err, catalog.ErrKey)
}

func checkRotate(t *testing.T, open Open) {
	d := newDesk(t, open)
	old, oldClear := d.key(catalog.Key{Entity: "alice", Scopes: []string{"read"}})
	fresh, freshClear, err := d.e.RotateKey(d.ctx, old.ID, 0)
	d.no(err)
	if fresh.Replaces != old.ID || fresh.Entity != "alice" || !fresh.HasScope("read") || !fresh.Expires.IsZero() || fresh.ID == old.ID {
		t.Errorf("rotated: %+v", fresh)
	}
	works := func(what, clear string, want bool) {
		t.Helper()
		if _, err := d.c.VerifyKey(d.ctx, clear); (err == nil) != want {
			t.Errorf("%s: got error %v, want it to work: %t", what, err, want)
		}
	}
	works("the old one at first", oldClear, true)
	works("the new one", freshClear, true)
	d.clock.Set(catalog.KeyGrace - time.Minute)
	works("the old one at the end of its time", oldClear, true)
	d.clock.Set(catalog.KeyGrace + time.Minute)
	works("the old one after its time", oldClear, false)
	works("the new one after that time", freshClear, true)
}

func checkLastUsed(t *testing.T, open Open) {
	d := newDesk(t, open)
	created, clear := d.key(catalog.Key{Entity: "alice"})
	if !created.LastUsed.IsZero() {
		t.Errorf("a new key was used at %s", created.LastUsed)
	}
	before := time.Now().Add(-time.Millisecond)
	for range 100 {
		_, err := d.c.VerifyKey(d.ctx, clear)
		d.no(err)
	}
	d.no(d.c.Close()) // writes down what it knows
	k, err := d.c.Key(d.ctx, d.namespace, created.ID)
	d.no(err)
	if k.LastUsed.Before(before) || time.Since(k.LastUsed) > time.Minute || k.Version != created.Version {
		t.Errorf("last used %s at version %d, want now at version %d", k.LastUsed, k.Version, created.Version)
	}
}

func checkSecret(t *testing.T, open Open) {
	d := newDesk(t, open)
	_, clear := d.key(catalog.Key{Entity: "alice"})
	same := d.node(open)
	_, err := same.c.VerifyKey(same.ctx, clear)
	d.no(err)
	another := *d
	another.start([]byte(strings.Repeat("another secret of the operator", 2)))
	_, err = another.c.VerifyKey(another.ctx, clear)
	d.is("another secret", err, catalog.ErrKey)
}
