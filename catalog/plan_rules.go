package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// entity is an entity as it will be; nil if it will not be there.
func (p *planner) entity(id string) (*Record, error) {
	k := entityKey(p.plan.Namespace, id)
	if r, ok := p.wanted[k]; ok {
		return &r, nil
	}
	if p.removed[k] {
		return nil, nil
	}
	return p.read(k)
}

// checkTiers says whether every tier that is named will be there.
func (p *planner) checkTiers() error {
	for _, id := range slices.Sorted(maps.Keys(p.declared.Entities)) {
		tier := p.declared.Entities[id].Tier
		if tier == "" {
			continue
		}
		k := tierKey(p.plan.Namespace, tier)
		_, there := p.wanted[k]
		if !there && !p.removed[k] {
			r, err := p.read(k)
			if err != nil {
				return err
			}
			_, inFile := p.b.e.catalog.Declaration(p.plan.Namespace).Tiers[tier]
			there = r != nil || inFile
		}
		if !there {
			return fmt.Errorf("entities.%s.tier: %w", excerpt.Of(id), about("tier", tier, ErrNotFound))
		}
	}
	for k := range p.removed {
		if k.Kind != KindTier {
			continue
		}
		for _, kind := range []Kind{KindEntity, KindKey} {
			users, err := p.b.e.catalog.all(p.b.ctx, ListQuery{Namespace: p.plan.Namespace, Kind: kind, Tier: k.ID})
			if err != nil {
				return err
			}
			for _, r := range users {
				if will, ok := p.wanted[r.RecordKey]; p.removed[r.RecordKey] || ok && will.Tier != k.ID {
					continue
				}
				return fmt.Errorf("tier %q cannot be removed: %w: %s %q has it", k.ID, ErrInUse, kind, excerpt.Of(r.ID))
			}
		}
	}
	return nil
}

// checkTree says whether parents will be there, without circles and not too
// deep, and no child will be left behind.
func (p *planner) checkTree() error {
	for _, id := range slices.Sorted(maps.Keys(p.declared.Entities)) {
		k := entityKey(p.plan.Namespace, id)
		r, ok := p.wanted[k]
		if !ok || r.Under == "" {
			continue
		}
		depth := 1
		for at := &r; at.Under != ""; depth++ {
			if at.Under == id {
				return badinput.Field("entities."+excerpt.Of(id)+".parent", r.Under, "would be a circle")
			}
			if depth == MaxDepth {
				return badinput.Field("entities."+excerpt.Of(id)+".parent", r.Under, fmt.Sprintf("would make more than %d levels of entities", MaxDepth))
			}
			above, err := p.entity(at.Under)
			if err != nil {
				return err
			}
			if above == nil {
				return fmt.Errorf("entities.%s.parent: %w", excerpt.Of(id), about("entity", at.Under, ErrNotFound))
			}
			at = above
		}
		if old := p.stored[k]; old != nil && old.Under != r.Under {
			height, err := p.b.height(id)
			if err != nil {
				return err
			}
			if depth+height-1 > MaxDepth {
				return badinput.Field("entities."+excerpt.Of(id)+".parent", r.Under, fmt.Sprintf("would make more than %d levels with what is below it", MaxDepth))
			}
		}
	}
	for k := range p.removed {
		if k.Kind != KindEntity {
			continue
		}
		children, err := p.b.e.catalog.all(p.b.ctx, ListQuery{Namespace: p.plan.Namespace, Kind: KindEntity, Under: k.ID})
		if err != nil {
			return err
		}
		for _, child := range children {
			if will, err := p.entity(child.ID); err != nil {
				return err
			} else if will != nil && will.Under == k.ID {
				return fmt.Errorf("entity %q cannot be removed: %w: %q", excerpt.Of(k.ID), ErrHasChildren, excerpt.Of(child.ID))
			}
		}
	}
	return nil
}

// at are the limits as they will be.
func (p *planner) at(s Scope) (Limits, error) {
	k := s.key(p.plan.Namespace)
	r, ok := p.wanted[k]
	if !ok {
		if p.removed[k] {
			return nil, nil
		}
		stored, err := p.read(k)
		if err != nil || stored == nil {
			return nil, err
		}
		r = *stored
	}
	l, err := limitsOf(r)
	return l.Limits, err
}

// warn says which limits of less specific levels the declared ones hide.
func (p *planner) warn() error {
	return p.declared.scopes(func(s Scope, declared Limits) error {
		warned := map[string]bool{}
		resources := []string{s.Resource}
		if s.Resource == "" { // a default stands in the way of every resource's own limits, too
			resources = append(resources, slices.Sorted(maps.Keys(p.declared.Resources))...)
		}
		for _, resource := range resources {
			if err := p.warnOn(s, declared, resource, warned); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *planner) warnOn(s Scope, declared Limits, resource string, warned map[string]bool) error {
	tier := s.Tier
	if s.Entity != "" {
		e, err := p.entity(s.Entity)
		if err != nil {
			return err
		}
		if e != nil {
			tier = e.Tier
		}
	}
	places := levels(s.Entity, tier, resource, s.Tier == "" && p.declared.Terms[resource].Counts.apart())
	for _, below := range places[slices.Index(places, s)+1:] {
		limits, err := p.at(below)
		if err != nil {
			return err
		}
		for _, name := range limits.Names() {
			if _, has := declared[name]; has || warned[name] {
				continue
			}
			warned[name] = true
			p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf("%s has no %s, so %s %s of %s does not apply there: a more specific level replaces the others as a whole",
				s, name, name, limits[name].Limit, below))
		}
	}
	return nil
}
