package policy

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// declaration is what the file says about limits.
func (f *document) declaration() *catalog.Declaration {
	d := &catalog.Declaration{
		System:    f.settings("", f.System.Limit),
		Resources: map[string]catalog.Limits{},
		Tiers:     map[string]catalog.TierDeclaration{},
		Entities:  map[string]catalog.EntityDeclaration{},
		KeyTiers:  map[string]string{},
		Terms:     map[string]catalog.Terms{},
	}
	if f.Tiers.len() > 0 {
		d.DefaultTier = cmp.Or(f.DefaultTier, f.Tiers.keys[0])
		d.AnonymousTier = cmp.Or(f.AnonymousTier, d.DefaultTier)
	}
	for name, r := range f.Resources.all() {
		d.Resources[name] = f.settings(name, r.Limit)
	}
	for name, s := range f.Limits.all() {
		d.Terms[name] = catalog.Terms{OnUnavailable: f.onUnavailable(name), Critical: s.Criticality == "critical", Shadow: s.Shadow, Unannounced: s.unannounced(), Counts: s.kind.counts(), Prefix: s.prefix}
		if s.Limit != nil {
			d.Resources[name] = f.settings(name, s.Limit)
		}
	}
	for name, t := range f.Tiers.all() {
		d.Tiers[name] = catalog.TierDeclaration{Limits: f.settings("", t.Default), Resources: f.byResource(&t.Limits)}
	}
	for id, e := range f.Entities.all() {
		d.Entities[id] = catalog.EntityDeclaration{
			Name: e.Name, Parent: e.Parent, Cascade: e.Cascade, Tier: e.Tier, Metadata: maps.Clone(e.Metadata),
			Limits: f.settings("", e.Default), Resources: f.byResource(&e.Limits),
		}
	}
	for _, k := range f.Identity.Keys {
		if k.Entity == "" {
			d.KeyTiers["key:"+k.Name] = k.Tier
		}
	}
	return d
}

func (f *document) byResource(m *ordered[Numbers]) map[string]catalog.Limits {
	limits := map[string]catalog.Limits{}
	for name, n := range m.all() {
		limits[name] = f.settings(name, n)
	}
	return limits
}

// settings are numbers with how the set or resource of that name applies
// them.
func (f *document) settings(resource string, n *Numbers) catalog.Limits {
	if n == nil {
		return nil
	}
	like := catalog.Setting{OnUnavailable: f.onUnavailable(resource)}
	if s := f.Limits.get(resource); s != nil {
		like.Critical, like.Shadow, like.Unannounced = s.Criticality == "critical", s.Shadow, s.unannounced()
	}
	limits := catalog.Limits{}
	for _, l := range n.Limits {
		like.Limit = l.Limit
		limits[l.Name] = like
	}
	if n.Unlimited {
		like.Limit = sluice.Unlimited
		limits[catalog.DefaultLimit] = like
	}
	return limits
}

// onUnavailable is what is declared for a resource. A catalog does not tell
// reads from writes, so the stricter of both counts.
func (f *document) onUnavailable(resource string) sluice.OnUnavailable {
	if r := f.Resources.get(resource); r != nil && r.OnUnavailable != "" {
		return unavailableWords[r.OnUnavailable]
	}
	if s := f.Limits.get(resource); s != nil {
		for _, u := range []*Unavailable{s.OnUnavailable, f.OnUnavailable} {
			if u != nil {
				return stricter(u.Read, u.Write)
			}
		}
	}
	return unavailableWords[f.System.OnUnavailable]
}

// declared checks the sections that are stored.
func (c *compiler) declared() {
	f := c.file
	c.numbers("system.limit", f.System.Limit)
	for name, r := range f.Resources.all() {
		c.numbers("resources."+excerpt.Of(name)+".limit", r.Limit)
	}
	for id, e := range f.Entities.all() {
		at := "entities." + excerpt.Of(id)
		if e.Tier != "" {
			c.tier(at+".tier", e.Tier)
		}
		c.numbers(at+".default", e.Default)
		c.numbersOf(at+".limits", &e.Limits)
		c.ancestors(at, id)
	}
	if err := c.policy.Declared.Validate(); err != nil && len(c.list) == 0 {
		var wrong *sluice.FieldError
		if errors.As(err, &wrong) {
			c.add(wrong.Field, "%v", err)
			return
		}
		c.add("", "%v", err)
	}
}

// ancestors reports an entity that is above itself. A parent that the file
// does not have may be stored already.
func (c *compiler) ancestors(at, id string) {
	above := []string{id}
	for e := c.file.Entities.get(id); e != nil && e.Parent != ""; e = c.file.Entities.get(e.Parent) {
		if e.Parent == id {
			c.add(at+".parent", "is the entity itself, or has it above: expected another entity")
			return
		}
		if slices.Contains(above, e.Parent) {
			return // it is reported for those who are in the circle
		}
		if above = append(above, e.Parent); len(above) > catalog.MaxDepth {
			c.add(at+".parent", "has more than %d entities above one another", catalog.MaxDepth)
			return
		}
	}
	if e := c.file.Entities.get(id); e.Cascade && e.Parent == "" {
		c.add(at+".cascade", "needs a parent to cascade to")
	}
}
