package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Setting is one limit with how it is applied.
type Setting struct {
	Limit         sluice.Limit
	OnUnavailable sluice.OnUnavailable
	Critical      bool
	Shadow        bool
	Unannounced   bool // callers are told when to come back, and nothing else of it
}

// settingJSON is how a [Setting] is written.
type settingJSON struct {
	Rule          sluice.Limit `json:"rule"`
	OnUnavailable string       `json:"onUnavailable,omitempty"`
	Critical      bool         `json:"critical,omitempty"`
	Shadow        bool         `json:"shadow,omitempty"`
	Announce      *bool        `json:"announce,omitempty"` // if false
}

// storedSetting is how a [Setting] is stored, which older versions read, too.
type storedSetting struct {
	Limit         storedLimit `json:"limit"`
	OnUnavailable string      `json:"on_unavailable,omitempty"`
	Critical      bool        `json:"critical,omitempty"`
	Shadow        bool        `json:"shadow,omitempty"`
	Announce      *bool       `json:"announce,omitempty"` // if false
}

// storedLimit writes [sluice.Unlimited] in numbers, because older versions that
// share the catalog do not know the word.
type storedLimit struct{ sluice.Limit }

func (l storedLimit) MarshalText() ([]byte, error) {
	if l.Limit == sluice.Unlimited {
		return []byte("1000000000000/us"), nil
	}
	return l.Limit.MarshalText()
}

// MarshalJSON writes the limit as people do.
func (s Setting) MarshalJSON() ([]byte, error) {
	return json.Marshal(settingJSON{s.Limit, s.onUnavailable(), s.Critical, s.Shadow, s.announce()})
}

// onUnavailable is "" for what is usual.
func (s Setting) onUnavailable() string {
	if s.OnUnavailable == sluice.Degrade {
		return ""
	}
	return s.OnUnavailable.String()
}

// announce is nil for what is usual.
func (s Setting) announce() *bool {
	if !s.Unannounced {
		return nil
	}
	return new(bool)
}

func (s Setting) stored() storedSetting {
	return storedSetting{storedLimit{s.Limit}, s.onUnavailable(), s.Critical, s.Shadow, s.announce()}
}

func (s storedSetting) setting() (Setting, error) {
	o, err := ParseOnUnavailable(s.OnUnavailable)
	return Setting{s.Limit.Limit, o, s.Critical, s.Shadow, s.Announce != nil && !*s.Announce}, err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Setting) UnmarshalJSON(data []byte) error {
	var j settingJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	o, err := ParseOnUnavailable(j.OnUnavailable)
	*s = Setting{j.Rule, o, j.Critical, j.Shadow, j.Announce != nil && !*j.Announce}
	return err
}

// ParseOnUnavailable reads degrade, deny or allow; "" is degrade.
func ParseOnUnavailable(s string) (sluice.OnUnavailable, error) {
	for _, o := range []sluice.OnUnavailable{sluice.Degrade, sluice.Deny, sluice.Allow} {
		if s == o.String() {
			return o, nil
		}
	}
	if s == "" {
		return sluice.Degrade, nil
	}
	return 0, badinput.Field("onUnavailable", s, "must be degrade, deny or allow")
}

// String writes s for people: the limit, and what is not as usual.
func (s Setting) String() string {
	text := s.Limit.String()
	var more []string
	if s.OnUnavailable != sluice.Degrade {
		more = append(more, "on_unavailable: "+s.OnUnavailable.String())
	}
	if s.Critical {
		more = append(more, "critical")
	}
	if s.Shadow {
		more = append(more, "shadow")
	}
	if s.Unannounced {
		more = append(more, "announce: false")
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

// Limits are the limits of one level, by name: "rpm", "tpm".
type Limits map[string]Setting

// Names are the names of the limits in order.
func (l Limits) Names() []string { return slices.Sorted(maps.Keys(l)) }

// String writes l for people.
func (l Limits) String() string {
	parts := make([]string, 0, len(l))
	for _, name := range l.Names() {
		parts = append(parts, name+" "+l[name].String())
	}
	return strings.Join(parts, ", ")
}

func (l Limits) validate(field string) error {
	if len(l) == 0 || len(l) > MaxLimits {
		return badinput.Field(field, fmt.Sprintf("%d limits", len(l)), fmt.Sprintf("must be 1 to %d", MaxLimits))
	}
	for _, name := range l.Names() {
		if err := checkName(field, name); err != nil {
			return err
		}
		if err := l[name].validate(); err != nil {
			return fmt.Errorf("%s.%s: %w", field, name, err)
		}
	}
	return nil
}

func (s Setting) validate() error {
	if s.OnUnavailable > sluice.Allow {
		return badinput.Field("onUnavailable", s.OnUnavailable, "must be degrade, deny or allow")
	}
	return s.Limit.Validate()
}

// Scope is where limits are stored: for an entity or a tier, by resource or
// in general, or for a resource. The zero Scope is the whole namespace, the
// system level.
type Scope struct {
	Entity   string `json:"entity,omitempty"` // or
	Tier     string `json:"tier,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// Level is how specific s is.
func (s Scope) Level() sluice.Level {
	switch {
	case s.Entity != "" && s.Resource != "":
		return sluice.LevelEntityResource
	case s.Entity != "":
		return sluice.LevelEntity
	case s.Tier != "" && s.Resource != "":
		return sluice.LevelTierResource
	case s.Tier != "":
		return sluice.LevelTier
	case s.Resource != "":
		return sluice.LevelResource
	}
	return sluice.LevelSystem
}

// String writes s for people.
func (s Scope) String() string {
	text := "the system"
	switch {
	case s.Entity != "":
		text = "entity " + s.Entity
	case s.Tier != "":
		text = "tier " + s.Tier
	case s.Resource != "":
		return "resource " + s.Resource
	}
	if s.Resource != "" {
		text += " on " + s.Resource
	}
	return text
}

// subject is who an audit event about s is filed under.
func (s Scope) subject() string {
	switch {
	case s.Entity != "":
		return s.Entity
	case s.Tier != "":
		return TierSubjectPrefix + s.Tier
	case s.Resource != "":
		return ResourceSubjectPrefix + s.Resource
	}
	return SystemSubject
}

func (s Scope) validate() error {
	if s.Entity != "" && s.Tier != "" {
		return badinput.Field("scope.tier", s.Tier, "limits are for an entity or for a tier, not for both")
	}
	if s.Entity != "" {
		if err := checkID("scope.entity", s.Entity); err != nil {
			return err
		}
	}
	if s.Tier != "" {
		if err := checkName("scope.tier", s.Tier); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		return checkID("scope.resource", s.Resource)
	}
	return nil
}

func (s Scope) key(namespace string) RecordKey {
	switch {
	case s.Entity != "":
		return RecordKey{namespace, KindEntityLimits, s.Entity, s.Resource}
	case s.Tier != "":
		return RecordKey{namespace, KindTierLimits, s.Tier, s.Resource}
	case s.Resource != "":
		return RecordKey{namespace, KindResourceLimits, s.Resource, ""}
	}
	return RecordKey{namespace, KindSystemLimits, "", ""}
}

// scopeOf is the scope that a record of limits is for.
func scopeOf(k RecordKey) Scope {
	switch k.Kind {
	case KindEntityLimits:
		return Scope{Entity: k.ID, Resource: k.Sub}
	case KindTierLimits:
		return Scope{Tier: k.ID, Resource: k.Sub}
	case KindResourceLimits:
		return Scope{Resource: k.ID}
	}
	return Scope{}
}

// StoredLimits are limits as they are stored.
type StoredLimits struct {
	Scope
	Limits  Limits    `json:"limits"`
	Source  string    `json:"source,omitempty"` // the declaration they came from
	Version int64     `json:"version"`
	Updated time.Time `json:"updated"`
}

type limitsData struct {
	Limits  map[string]storedSetting `json:"limits"`
	Updated time.Time                `json:"updated"`
}

func (l *StoredLimits) record(namespace string) (Record, error) {
	limits := map[string]storedSetting{}
	for name, s := range l.Limits {
		limits[name] = s.stored()
	}
	data, err := encode(limitsData{limits, l.Updated})
	r := Record{RecordKey: l.Scope.key(namespace), Source: l.Source, Data: data}
	if r.Kind == KindEntityLimits || r.Kind == KindTierLimits {
		r.Under = l.Resource
	}
	return r, err
}

func limitsOf(r Record) (StoredLimits, error) {
	var d limitsData
	err := decode(r, &d)
	limits := Limits{}
	for name, s := range d.Limits {
		var wrong error
		limits[name], wrong = s.setting()
		err = cmp.Or(err, wrong)
	}
	return StoredLimits{scopeOf(r.RecordKey), limits, r.Source, r.Version, d.Updated}, err
}

// Limits are the limits stored at one place; [ErrNotFound] if there are none.
func (c *Catalog) Limits(ctx context.Context, namespace string, s Scope) (StoredLimits, error) {
	if err := s.validate(); err != nil {
		return StoredLimits{}, err
	}
	r, err := c.store.Get(ctx, s.key(namespace))
	if err != nil {
		return StoredLimits{}, fmt.Errorf("limits of %s: %w", s, err)
	}
	return limitsOf(r)
}

// LimitsQuery selects stored limits at one level: of entities (all that have
// limits of their own), of tiers, or of resources. Entity or Tier narrows it
// to one; Resource to the limits that entities or tiers have on it.
type LimitsQuery struct {
	Level    sluice.Level // LevelEntity, LevelTier, LevelResource or LevelSystem; the default is LevelEntity
	Entity   string
	Tier     string
	Resource string
	Cursor   string
	Max      int // a page: 1 to 1000; 0 means 100
}

// LimitsPage is one page of stored limits.
type LimitsPage struct {
	Limits []StoredLimits `json:"limits"`
	Next   string         `json:"next,omitempty"`
}

// ListLimits lists stored limits, by entity or tier and then by resource.
func (c *Catalog) ListLimits(ctx context.Context, namespace string, q LimitsQuery) (LimitsPage, error) {
	lq := ListQuery{Namespace: namespace, Kind: KindEntityLimits, ID: q.Entity, Cursor: q.Cursor, Max: q.Max}
	switch {
	case q.Tier != "" || q.Level == sluice.LevelTier || q.Level == sluice.LevelTierResource:
		lq.Kind, lq.ID = KindTierLimits, q.Tier
	case q.Level == sluice.LevelResource:
		lq.Kind, lq.ID = KindResourceLimits, q.Resource
	case q.Level == sluice.LevelSystem:
		lq.Kind = KindSystemLimits
	}
	if lq.ID == "" {
		lq.Under = q.Resource
	} else if q.Resource != "" && lq.Kind != KindResourceLimits {
		return LimitsPage{}, badinput.Field("limits.resource", q.Resource, "leave it out to list those of one entity or tier")
	}
	all, next, err := list(ctx, c, lq, limitsOf)
	return LimitsPage{all, next}, err
}

// SetLimits stores all limits of a scope, in place of what was there. If
// version is not 0, it must be the version that they have; to store the first
// ones there, it is 0.
func (e *Editor) SetLimits(ctx context.Context, s Scope, limits Limits, version int64) (StoredLimits, error) {
	if err := s.validate(); err != nil {
		return StoredLimits{}, err
	}
	if s.Entity != "" {
		if err := checkStorable("scope.entity", s.Entity); err != nil {
			return StoredLimits{}, err
		}
	}
	if err := limits.validate("limits"); err != nil {
		return StoredLimits{}, err
	}
	var stored StoredLimits
	_, err := e.attempt(ctx, func(b *build) error {
		old, err := b.read(s.key(e.namespace))
		if err != nil {
			return err
		}
		stored = StoredLimits{Scope: s, Limits: limits, Updated: b.now}
		if err := b.tierExists(s.Tier); err != nil {
			return err
		}
		before, err := limitsBefore(old)
		if err != nil {
			return err
		}
		r, err := stored.record(e.namespace)
		if err != nil {
			return err
		}
		b.put(r, old, version)
		return b.event("limits.set", s.subject(), before, &stored)
	}, &stored.Version)
	return stored, err
}

func limitsBefore(old *Record) (*StoredLimits, error) {
	if old == nil {
		return nil, nil
	}
	l, err := limitsOf(*old)
	return &l, err
}

// RemoveLimits removes the limits of a scope; the next level's apply then.
func (e *Editor) RemoveLimits(ctx context.Context, s Scope, version int64) error {
	if err := s.validate(); err != nil {
		return err
	}
	_, err := e.attempt(ctx, func(b *build) error {
		old, err := b.mustRead(s.key(e.namespace), "limits of "+s.String())
		if err != nil {
			return err
		}
		before, err := limitsBefore(old)
		if err != nil {
			return err
		}
		b.remove(old, version)
		return b.event("limits.remove", s.subject(), before, nil)
	}, nil)
	return err
}
