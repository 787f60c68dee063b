package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// Subject is who uses what.
type Subject struct {
	Namespace string
	Entity    string // "" for nobody in particular: the resource's own limits
	Resource  string // "" for nothing in particular

	// Tier is the caller's plan according to their key or token. The tier
	// stored with the entity beats it.
	Tier string
}

func (s *Subject) validate() error {
	if s.Entity != "" {
		if err := checkID("entity", s.Entity); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		if err := checkID("resource", s.Resource); err != nil {
			return err
		}
	}
	if s.Tier != "" {
		return checkName("tier", s.Tier)
	}
	return nil
}

// Resolve finds the limits that apply to s: for the entity and for every
// ancestor that it cascades to, those of the most specific level that has
// any, with overrides on top. It answers from memory if it can; a
// [Resolution] is shared and must not be changed.
//
// Nothing stored about the entity is no error. A namespace that neither
// exists nor is declared is [ErrNotFound].
func (c *Catalog) Resolve(ctx context.Context, s Subject) (*Resolution, error) {
	r, err := c.resolutions.get(ctx, s)
	if err != nil {
		return nil, err
	}
	if r.missing {
		return nil, about("namespace", s.Namespace, ErrNotFound)
	}
	return r, nil
}

// load reads what Resolve answers.
func (c *Catalog) load(ctx context.Context, s Subject) (loaded[*Resolution], error) {
	if err := s.validate(); err != nil {
		return loaded[*Resolution]{}, err
	}
	r := &resolver{
		catalog: c, subject: s, now: c.config.Clock(), file: c.declaration(s.Namespace),
		limits: map[Scope]Limits{}, entities: map[string]Entity{}, overrides: map[string][]Override{}, asked: map[string]bool{},
	}
	_, declared := (*c.declared.Load())[s.Namespace]
	r.found = declared
	r.depends(hashNamespace(s.Namespace))
	if s.Resource != "" {
		r.depends(hashResource(s.Namespace, s.Resource))
	}
	tier := s.Tier
	if tier == "" { // so that its limits come along, if the entity has none stored
		tier = r.file.Entities[s.Entity].Tier
	}
	if err := r.read(ctx, s.Entity, tier); err != nil {
		return loaded[*Resolution]{}, err
	}
	answer := &Resolution{Subject: s, missing: !r.found}
	if r.found {
		if err := r.resolve(ctx, answer); err != nil {
			return loaded[*Resolution]{}, err
		}
	}
	return loaded[*Resolution]{value: answer, slots: r.slots, until: r.until}, nil
}

// resolver puts together one answer.
type resolver struct {
	catalog *Catalog
	subject Subject
	now     time.Time
	file    *Declaration

	found     bool // the namespace
	limits    map[Scope]Limits
	entities  map[string]Entity
	overrides map[string][]Override
	asked     map[string]bool // entities that were read with all above them

	slots []uint32
	until time.Time
}

func (r *resolver) depends(hash uint64) { r.slots = append(r.slots, r.catalog.freshness.slot(hash)) }

// expires makes the answer good until a time at most.
func (r *resolver) expires(at time.Time) {
	if at.After(r.now) && (r.until.IsZero() || at.Before(r.until)) {
		r.until = at
	}
}

func (r *resolver) read(ctx context.Context, entity, tier string) error {
	r.asked[entity] = true
	records, err := r.catalog.store.Resolve(ctx, ResolveQuery{Namespace: r.subject.Namespace, Entity: entity, Tier: tier, Resource: r.subject.Resource})
	if err != nil {
		return err
	}
	for _, record := range records {
		switch record.Kind {
		case KindNamespace:
			n, err := namespaceOf(record)
			if err != nil {
				return err
			}
			r.found = r.found || !n.Deleting
		case KindEntity:
			e, err := entityOf(record)
			if err != nil {
				return err
			}
			r.entities[e.ID] = e
			r.asked[e.ID] = true
		case KindEntityLimits, KindTierLimits, KindResourceLimits, KindSystemLimits:
			l, err := limitsOf(record)
			if err != nil {
				return err
			}
			r.limits[l.Scope] = l.Limits
		case KindOverride:
			o, err := overrideOf(record)
			if err != nil {
				return err
			}
			if o.Resource == "" || o.Resource == r.subject.Resource {
				r.overrides[o.Entity] = append(r.overrides[o.Entity], o)
			}
		}
	}
	return nil
}

// entity is what is known of an entity, from the store or else the file.
func (r *resolver) entity(id string) (e Entity, stored bool) {
	if e, ok := r.entities[id]; ok {
		return e, true
	}
	d := r.file.Entities[id]
	return Entity{ID: id, Name: d.Name, Parent: d.Parent, Cascade: d.Cascade, Tier: d.Tier}, false
}

// resolve fills in the answer for the entity and those it cascades to.
func (r *resolver) resolve(ctx context.Context, answer *Resolution) error {
	at := r.subject.Entity
	seen := map[string]bool{}
	for depth := 1; ; depth++ {
		if !r.asked[at] { // only the file knows that it is a parent
			if err := r.read(ctx, at, r.file.Entities[at].Tier); err != nil {
				return err
			}
		}
		seen[at] = true
		e, stored := r.entity(at)
		if depth == 1 {
			if e.Tier == "" {
				e.Tier = r.subject.Tier
			}
			answer.Tier, answer.Known = e.Tier, stored
		}
		if at != "" {
			r.depends(hashEntity(r.subject.Namespace, at))
		}
		if e.Tier != "" {
			r.depends(hashTier(r.subject.Namespace, e.Tier))
		}
		if err := r.apply(answer, e); err != nil {
			return err
		}
		if !e.Cascade || e.Parent == "" || depth == MaxDepth || seen[e.Parent] {
			return nil
		}
		at = e.Parent
	}
}

// levels are the places to look for limits, the most specific first.
func levels(entity, tier, resource string) []Scope {
	all := make([]Scope, 0, 6)
	add := func(s Scope) {
		if resource != "" {
			s.Resource = resource
			all = append(all, s)
			s.Resource = ""
		}
		all = append(all, s)
	}
	if entity != "" {
		add(Scope{Entity: entity})
	}
	if tier != "" {
		add(Scope{Tier: tier})
	}
	add(Scope{})
	return all
}

// apply adds the limits of one entity to the answer.
func (r *resolver) apply(answer *Resolution, e Entity) error {
	first := len(answer.Applied)
	places := levels(e.ID, e.Tier, r.subject.Resource)
	won := -1
	for i, scope := range append(places, Scope{}) {
		level := scope.Level()
		limits, from := r.limits[scope], FromStore
		if len(limits) == 0 {
			limits, from = r.file.at(scope), FromFile
		}
		if i == len(places) {
			level, limits, from = sluice.LevelDefault, r.catalog.config.Default, FromConfig
		}
		if len(limits) == 0 {
			continue
		}
		if won < 0 {
			won = i
			for _, name := range limits.Names() {
				answer.Applied = append(answer.Applied, Applied{Entity: e.ID, Limit: name, Setting: limits[name], Level: level, From: from})
			}
			continue
		}
		for _, name := range limits.Names() {
			if !answer.mentions(first, e.ID, name) {
				answer.Hidden = append(answer.Hidden, Hidden{Entity: e.ID, Limit: name, Setting: limits[name], Level: level, By: answer.Applied[first].Level})
			}
		}
	}
	for _, o := range r.overrides[e.ID] {
		if !o.Until.After(r.now) {
			continue
		}
		r.expires(o.Until)
		answer.override(first, o)
	}
	if len(answer.Applied) > sluice.MaxDemands {
		return fmt.Errorf("%d limits apply to %s and its parents, and a take has room for %d: %w", len(answer.Applied), e.ID, sluice.MaxDemands, errors.ErrUnsupported)
	}
	answer.prepare()
	return nil
}
