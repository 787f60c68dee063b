package catalog

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// KeyGrace is how long the old key still works after [Editor.RotateKey], if
// nothing else is said.
const KeyGrace = 7 * 24 * time.Hour

// MaxScopes is how many scopes a key may have.
const MaxScopes = 32

// Key is an API key as everybody may see it. The key in clear is shown once,
// when it is made; only a keyed hash of it is stored.
type Key struct {
	ID        string   `json:"id"` // its public part, which the key in clear begins with
	Namespace string   `json:"namespace"`
	Entity    string   `json:"entity"` // whom it stands for
	Name      string   `json:"name,omitempty"`
	Tier      string   `json:"tier,omitempty"` // if the entity has none stored
	Scopes    []string `json:"scopes,omitempty"`

	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`  // zero: never
	Revoked  time.Time `json:"revoked,omitzero"`  // zero: not
	LastUsed time.Time `json:"lastUsed,omitzero"` // to within a few seconds
	Replaces string    `json:"replaces,omitempty"`
	Version  int64     `json:"version"`
}

// HasScope reports whether the key has a scope.
func (k *Key) HasScope(scope string) bool { return slices.Contains(k.Scopes, scope) }

// valid reports whether k can be used at a time.
func (k *Key) valid(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

type keyData struct {
	Name     string    `json:"name,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	Replaces string    `json:"replaces,omitempty"`
	Hash     []byte    `json:"hash"`
}

// storedKey is a key with its hash, which does not leave the package.
type storedKey struct {
	Key
	hash []byte
}

func keyKey(namespace, id string) RecordKey { return RecordKey{namespace, KindKey, id, ""} }

func (k *storedKey) record() (Record, error) {
	data, err := encode(keyData{k.Name, k.Scopes, k.Created, k.Expires, k.Revoked, k.Replaces, k.hash})
	return Record{RecordKey: keyKey(k.Namespace, k.ID), Under: k.Entity, Tier: k.Tier, Data: data}, err
}

func keyOf(r Record) (*storedKey, error) {
	var d keyData
	err := decode(r, &d)
	return &storedKey{Key{
		ID: r.ID, Namespace: r.Namespace, Entity: r.Under, Name: d.Name, Tier: r.Tier, Scopes: d.Scopes,
		Created: d.Created, Expires: d.Expires, Revoked: d.Revoked, LastUsed: r.Used, Replaces: d.Replaces, Version: r.Version,
	}, d.Hash}, err
}

// shownKey is a key without its hash.
func shownKey(r Record) (Key, error) {
	k, err := keyOf(r)
	return k.Key, err
}

// A key in clear is slk_ID_SECRET: a mark that scanners of leaked secrets can
// look for, 80 random bits to find it by, and 130 that nobody can guess.
const (
	keyMark   = "slk_"
	keyIDSize = 16
	maxClear  = 100
)

func newKeyID() string {
	var b [10]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// keyID is the public part of a key in clear; "" if it cannot be one.
func keyID(clear string) string {
	rest, ok := strings.CutPrefix(clear, keyMark)
	if !ok || len(clear) > maxClear || len(rest) < keyIDSize+2 || rest[keyIDSize] != '_' {
		return ""
	}
	for _, c := range []byte(rest[:keyIDSize]) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return ""
		}
	}
	return rest[:keyIDSize]
}

func (k *Key) validate(now time.Time) error {
	if err := checkID("key.entity", k.Entity); err != nil {
		return err
	}
	if err := checkText("key.name", k.Name); err != nil {
		return err
	}
	if len(k.Scopes) > MaxScopes {
		return badinput.Field("key.scopes", fmt.Sprintf("%d scopes", len(k.Scopes)), fmt.Sprintf("must be at most %d", MaxScopes))
	}
	for _, s := range k.Scopes {
		if err := checkName("key.scopes", s); err != nil {
			return err
		}
	}
	if !k.Expires.IsZero() && !k.Expires.After(now) {
		return badinput.Field("key.expires", k.Expires.Format(time.RFC3339), "must be in the future")
	}
	return nil
}

// CreateKey makes an API key for k.Entity, of k's name, tier, scopes and
// expiry. It answers the key in clear, which is shown this once.
func (e *Editor) CreateKey(ctx context.Context, k Key) (created Key, clear string, err error) {
	if err := checkStorable("key.entity", k.Entity); err != nil {
		return Key{}, "", err
	}
	if err := k.validate(e.catalog.now()); err != nil {
		return Key{}, "", err
	}
	var stored *storedKey
	_, err = e.attempt(ctx, func(b *build) error {
		if err := b.tierExists(k.Tier); err != nil {
			return err
		}
		fresh := Key{Entity: k.Entity, Name: k.Name, Tier: k.Tier, Scopes: k.Scopes, Expires: k.Expires.UTC()}
		stored, clear, err = b.newKey(fresh)
		if err != nil {
			return err
		}
		return b.event("key.create", k.Entity, nil, &stored.Key)
	}, nil)
	if err != nil {
		return Key{}, "", err
	}
	created, err = e.catalog.Key(ctx, e.namespace, stored.ID)
	return created, clear, err
}

func (b *build) newKey(k Key) (*storedKey, string, error) {
	k.ID, k.Namespace, k.Created = newKeyID(), b.e.namespace, b.now
	clear := keyMark + k.ID + "_" + rand.Text()
	stored := &storedKey{Key: k}
	sum := b.e.catalog.hashes.sum(clear)
	stored.hash = sum[:]
	r, err := stored.record()
	b.create(r)
	return stored, clear, err
}

// changeKey stores a key as change makes it.
func (e *Editor) changeKey(ctx context.Context, id, action string, change func(*build, *storedKey) error) (Key, error) {
	_, err := e.attempt(ctx, func(b *build) error {
		old, k, err := mustDecode(b, keyKey(e.namespace, id), "key "+excerpt.Of(id), keyOf)
		if err != nil {
			return err
		}
		before := k.Key
		if err := change(b, k); err != nil {
			return err
		}
		r, err := k.record()
		if err != nil {
			return err
		}
		b.put(r, old, 0)
		return b.event(action, k.Entity, &before, &k.Key)
	}, nil)
	if err != nil {
		return Key{}, err
	}
	return e.catalog.Key(ctx, e.namespace, id)
}

// RevokeKey ends a key for good: here at once, elsewhere within a second.
func (e *Editor) RevokeKey(ctx context.Context, id string) (Key, error) {
	return e.changeKey(ctx, id, "key.revoke", func(b *build, k *storedKey) error {
		if k.Revoked.IsZero() {
			k.Revoked = b.now
		}
		return nil
	})
}

// UpdateKey sets the name, tier, scopes and expiry of a key.
func (e *Editor) UpdateKey(ctx context.Context, k Key) (Key, error) {
	return e.changeKey(ctx, k.ID, "key.update", func(b *build, stored *storedKey) error {
		k.Entity = stored.Entity
		if err := k.validate(b.now); err != nil {
			return err
		}
		if k.Tier != stored.Tier {
			if err := b.tierExists(k.Tier); err != nil {
				return err
			}
		}
		stored.Name, stored.Tier, stored.Scopes, stored.Expires = k.Name, k.Tier, k.Scopes, k.Expires.UTC()
		return nil
	})
}

// RotateKey makes a new key like an old one, which goes on working for grace
// but not beyond its own expiry. A grace of 0 means [KeyGrace].
func (e *Editor) RotateKey(ctx context.Context, id string, grace time.Duration) (created Key, clear string, err error) {
	if grace == 0 {
		grace = KeyGrace
	}
	if grace < 0 || grace > 365*24*time.Hour {
		return Key{}, "", badinput.Field("grace", grace, "must be between 0, which means a week, and a year")
	}
	var fresh *storedKey
	_, err = e.changeKey(ctx, id, "key.rotate", func(b *build, old *storedKey) error {
		if !old.valid(b.now) {
			return fmt.Errorf("key %s: %w: only a key that works can be rotated", id, ErrKey)
		}
		k := old.Key
		k.Replaces, k.LastUsed, k.Version = old.ID, time.Time{}, 0
		if fresh, clear, err = b.newKey(k); err != nil {
			return err
		}
		if end := b.now.Add(grace); old.Expires.IsZero() || old.Expires.After(end) {
			old.Expires = end
		}
		return b.event("key.create", k.Entity, nil, &fresh.Key)
	})
	if err != nil {
		return Key{}, "", err
	}
	created, err = e.catalog.Key(ctx, e.namespace, fresh.ID)
	return created, clear, err
}

// DeleteKey removes a key and what is known about it. Revoking it leaves that
// for people to look at.
func (e *Editor) DeleteKey(ctx context.Context, id string) error {
	_, err := e.attempt(ctx, func(b *build) error {
		old, k, err := mustDecode(b, keyKey(e.namespace, id), "key "+excerpt.Of(id), keyOf)
		if err != nil {
			return err
		}
		b.remove(old, 0)
		return b.event("key.delete", k.Entity, &k.Key, nil)
	}, nil)
	return err
}

// Key is one API key; [ErrNotFound] if there is none of that id.
func (c *Catalog) Key(ctx context.Context, namespace, id string) (Key, error) {
	return get(ctx, c, keyKey(namespace, id), "key", shownKey)
}

// KeyPage is one page of keys.
type KeyPage struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"`
}

// Keys lists the keys of an entity, or of all if entity is "", in order of
// id. max is 1 to 1000, or 0 for 100.
func (c *Catalog) Keys(ctx context.Context, namespace, entity, cursor string, max int) (KeyPage, error) {
	all, next, err := list(ctx, c, ListQuery{Namespace: namespace, Kind: KindKey, Under: entity, Cursor: cursor, Max: max}, shownKey)
	return KeyPage{all, next}, err
}

// loadKey reads a key for the cache; nil if there is none to be used.
func (c *Catalog) loadKey(ctx context.Context, id string) (loaded[*storedKey], error) {
	l := loaded[*storedKey]{slots: []uint32{c.freshness.slot(hashKey(id))}}
	r, err := c.store.Find(ctx, KindKey, id)
	if errors.Is(err, ErrNotFound) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.slots = append(l.slots, c.freshness.slot(hashNamespace(r.Namespace)))
	_, err = c.namespaceRecord(ctx, r.Namespace)
	if errors.Is(err, ErrNotFound) { // it is being deleted
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.value, err = keyOf(r)
	return l, err
}
