package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Resolver finds the limits that apply to a subject: the one place that every
// door asks. A [Catalog] knows what is stored and what the policy file
// declares; [Declared] knows the file alone. A [Resolution] is shared and must
// not be changed.
type Resolver interface {
	Resolve(ctx context.Context, s Subject) (*Resolution, error)
}

var (
	_ Resolver = (*Catalog)(nil)
	_ Resolver = (*Declared)(nil)
)

// Subject is who uses what.
type Subject struct {
	Namespace string

	// Entity is who is asking. "" is nobody in particular, and so is whoever
	// is [Anonymous]: the limits of tiers, resources and the system apply.
	Entity string

	// Resource is what is used; "" for nothing in particular. Resources are
	// several in its place, as [JoinResources] writes them.
	Resource, Resources string

	// Tier is the caller's plan according to their key or token. The tier
	// stored with the entity beats it. Callers without a tier, or with one
	// that nobody knows, have the file's default tier; anonymous callers have
	// its anonymous tier. It says nothing about parents: they have the tier
	// stored with them or the default one, as when they are asked about.
	Tier string

	// File is what the policy file declares. Nil means what was last declared
	// for the namespace with [Catalog.Declare].
	File *Declaration
}

// JoinResources writes several resources as one [Subject] has them.
func JoinResources(names ...string) string { return strings.Join(names, "\n") }

// Anonymous reports whether an entity is an address or the value of a header,
// which anybody can make up. Nothing is stored about such an entity, so that
// making some up costs no database anything.
func Anonymous(entity string) bool {
	return strings.HasPrefix(entity, "ip:") || strings.HasPrefix(entity, "header:")
}

// checkStorable says what is wrong with an entity that something is to be
// stored about.
func checkStorable(field, entity string) error {
	if Anonymous(entity) {
		return badinput.Field(field, entity, "nothing is stored about addresses and header values; set limits for their tier or resource")
	}
	return checkID(field, entity)
}

// nothing is what a file that declares nothing says.
var nothing = &Declaration{}

// known is s as answers are remembered: anonymous callers are all the same.
func (s Subject) known() Subject {
	if Anonymous(s.Entity) {
		s.Entity = ""
	}
	if s.Entity == "" && s.Tier == "" {
		s.Tier = s.File.AnonymousTier
	}
	return s
}

// Resolve finds the limits that apply to s: for the entity and for every
// ancestor that it cascades to, those of the most specific level that has
// any, with overrides on top. It answers from memory if it can.
//
// Nothing stored about the entity is no error, nor is a name that cannot be
// stored. A namespace that neither exists nor is declared is [ErrNotFound].
func (c *Catalog) Resolve(ctx context.Context, s Subject) (*Resolution, error) {
	if s.File == nil {
		s.File = c.Declaration(s.Namespace)
	}
	s = s.known()
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
	r := newResolver(s, c.config.Default)
	r.ask, r.now = c.store.Resolve, c.config.Clock()
	answer, err := r.resolve(ctx)
	if err != nil {
		return loaded[*Resolution]{}, err
	}
	slots := make([]uint32, len(r.depends))
	for i, hash := range r.depends {
		slots[i] = c.freshness.slot(hash)
	}
	return loaded[*Resolution]{value: answer, slots: slots, until: r.until}, nil
}

// resolver puts together one answer.
type resolver struct {
	subject  Subject
	file     *Declaration
	defaults Limits
	ask      func(context.Context, ResolveQuery) ([]Record, error) // nil if nothing is stored
	now      time.Time

	found     bool // the namespace
	limits    map[Scope]Limits
	entities  map[string]Entity
	tiers     map[string]bool // that are stored
	overrides []Override
	read      map[Scope]bool // entities and tiers that were asked about, by resource

	depends []uint64
	until   time.Time
}

func newResolver(s Subject, defaults Limits) *resolver {
	return &resolver{
		subject: s, file: s.File, defaults: defaults, found: s.File != nothing, limits: map[Scope]Limits{},
		entities: map[string]Entity{}, tiers: map[string]bool{}, read: map[Scope]bool{},
	}
}

// resolve answers for each resource in turn.
func (r *resolver) resolve(ctx context.Context) (*Resolution, error) {
	s := &r.subject
	if checkID("entity", s.Entity) != nil {
		s.Entity = "" // nothing can be stored about it, so it is as everybody
	}
	if checkName("tier", s.Tier) != nil {
		s.Tier = ""
	}
	r.depends = append(r.depends, hashNamespace(s.Namespace))
	answer := &Resolution{Subject: *s}
	resources := []string{s.Resource}
	if s.Resources != "" {
		resources = strings.Split(s.Resources, "\n")
	}
	for _, resource := range resources {
		if resource != "" {
			if err := checkID("resource", resource); err != nil {
				return nil, err
			}
			r.depends = append(r.depends, hashResource(s.Namespace, resource))
		}
		if err := r.chain(ctx, answer, resource); err != nil {
			return nil, err
		}
	}
	if err := r.ancestors(ctx, answer, resources[0]); err != nil {
		return nil, err
	}
	answer.missing = r.ask != nil && !r.found
	answer.prepare()
	return answer, nil
}

// expires makes the answer good until a time at most.
func (r *resolver) expires(at time.Time) {
	if at.After(r.now) && (r.until.IsZero() || at.Before(r.until)) {
		r.until = at
	}
}

// know reads what is stored about an entity, all above it and a tier, unless
// that is known.
func (r *resolver) know(ctx context.Context, entity, tier, resource string) error {
	if r.ask == nil {
		return nil
	}
	ofEntity, ofTier := Scope{Entity: entity, Resource: resource}, Scope{Tier: tier, Resource: resource}
	if r.read[ofEntity] {
		if tier == "" || r.read[ofTier] {
			return nil
		}
		entity = "" // only the tier is missing
	}
	r.read[ofEntity], r.read[ofTier] = true, true
	records, err := r.ask(ctx, ResolveQuery{Namespace: r.subject.Namespace, Entity: entity, Tier: tier, Resource: resource})
	if err != nil {
		return err
	}
	for _, record := range records {
		if err := r.learn(record, resource); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) learn(record Record, resource string) error {
	switch record.Kind {
	case KindNamespace:
		n, err := namespaceOf(record)
		r.found = r.found || !n.Deleting
		return err
	case KindEntity:
		e, err := entityOf(record)
		r.entities[e.ID] = e
		r.read[Scope{Entity: e.ID, Resource: resource}] = true
		r.read[Scope{Tier: e.Tier, Resource: resource}] = true
		return err
	case KindTier:
		r.tiers[record.ID] = true
	case KindEntityLimits, KindTierLimits, KindResourceLimits, KindSystemLimits:
		l, err := limitsOf(record)
		r.limits[l.Scope] = l.Limits
		return err
	case KindOverride:
		o, err := overrideOf(record)
		if same := func(k Override) bool { return k.Entity == o.Entity && k.Limit == o.Limit && k.Resource == o.Resource }; !slices.ContainsFunc(r.overrides, same) {
			r.overrides = append(r.overrides, o)
		}
		return err
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

// chain adds the limits of the entity and of those it cascades to.
func (r *resolver) chain(ctx context.Context, answer *Resolution, resource string) error {
	first, at := len(answer.Applied), r.subject.Entity
	seen := map[string]bool{}
	for depth := 1; ; depth++ {
		brought := "" // by the credential, which is the caller's and not their parents'
		if depth == 1 {
			brought = r.subject.Tier
		}
		// So that the tier's limits come along, if nothing else is stored.
		tier := cmp.Or(brought, r.file.Entities[at].Tier, r.file.KeyTiers[at], r.file.DefaultTier)
		if err := r.know(ctx, at, tier, resource); err != nil {
			return err
		}
		seen[at] = true
		e, stored := r.entity(at)
		if err := r.settleTier(ctx, &e, brought, resource); err != nil {
			return err
		}
		if depth == 1 {
			answer.Tier, answer.Known = e.Tier, stored
		}
		if at != "" {
			r.depends = append(r.depends, hashEntity(r.subject.Namespace, at))
		}
		if e.Tier != "" {
			r.depends = append(r.depends, hashTier(r.subject.Namespace, e.Tier))
		}
		r.apply(answer, e, resource)
		if n := len(answer.Applied) - first; n > sluice.MaxDemands {
			return fmt.Errorf("%d limits apply to %s and its parents, and a take has room for %d: %w", n, e.ID, sluice.MaxDemands, errors.ErrUnsupported)
		}
		if !e.Cascade || e.Parent == "" || depth == MaxDepth || seen[e.Parent] {
			return nil
		}
		at = e.Parent
	}
}

// ancestors finds who stands above the entity. That was read with it, unless
// the file says it.
func (r *resolver) ancestors(ctx context.Context, answer *Resolution, resource string) error {
	e, _ := r.entity(r.subject.Entity)
	for e.Parent != "" && len(answer.Ancestors) < MaxDepth && !slices.Contains(answer.Ancestors, e.Parent) {
		answer.Ancestors = append(answer.Ancestors, e.Parent)
		r.depends = append(r.depends, hashEntity(r.subject.Namespace, e.Parent))
		if err := r.know(ctx, e.Parent, "", resource); err != nil {
			return err
		}
		e, _ = r.entity(e.Parent)
	}
	return nil
}

// settleTier finds the tier of the caller or of a parent: that of the entity,
// else the one that a credential brought, else or if nobody knows that one the
// default of the file.
func (r *resolver) settleTier(ctx context.Context, e *Entity, brought, resource string) error {
	e.Tier = cmp.Or(e.Tier, brought, r.file.KeyTiers[e.ID])
	if _, declared := r.file.Tiers[e.Tier]; !declared {
		if e.Tier != "" {
			r.depends = append(r.depends, hashTier(r.subject.Namespace, e.Tier))
		}
		if !r.tiers[e.Tier] && r.file.DefaultTier != "" {
			e.Tier = r.file.DefaultTier
		}
	}
	return r.know(ctx, e.ID, e.Tier, resource)
}

// levels are the places to look for limits, the most specific first. What a
// tier has by default is for callers: where a resource counts something else,
// it stands apart from it.
func levels(entity, tier, resource string, apart bool) []Scope {
	all := make([]Scope, 0, 6)
	add := func(s Scope, general bool) {
		if resource != "" {
			s.Resource = resource
			all = append(all, s)
			s.Resource = ""
		}
		if general {
			all = append(all, s)
		}
	}
	if entity != "" {
		add(Scope{Entity: entity}, true)
	}
	if tier != "" {
		add(Scope{Tier: tier}, !apart)
	}
	add(Scope{}, true)
	return all
}

// apply adds the limits of one entity to the answer.
func (r *resolver) apply(answer *Resolution, e Entity, resource string) {
	first := len(answer.Applied)
	terms := r.file.Terms[resource]
	like := Applied{Entity: e.ID, Resource: resource, terms: terms}
	places := levels(e.ID, e.Tier, resource, terms.Counts.apart())
	won := false
	for i, scope := range append(places, Scope{}) {
		like.Level = scope.Level()
		limits := r.limits[scope]
		like.From = FromStore
		if len(limits) == 0 {
			limits, like.From = r.file.at(scope), FromFile
		}
		if i == len(places) {
			like.Level, limits, like.From = sluice.LevelDefault, r.defaults, FromConfig
		}
		for _, name := range limits.Names() {
			like.Limit, like.Setting = name, limits[name]
			switch {
			case !won:
				answer.Applied = append(answer.Applied, like)
			case !answer.mentions(first, e.ID, resource, name):
				answer.Hidden = append(answer.Hidden, Hidden{Entity: e.ID, Resource: resource, Limit: name, Setting: like.Setting,
					Level: like.Level, By: answer.Applied[first].Level})
			}
		}
		won = won || len(limits) > 0
	}
	slices.SortFunc(r.overrides, func(a, b Override) int { return strings.Compare(a.Limit+"@"+a.Resource, b.Limit+"@"+b.Resource) })
	for _, o := range r.overrides {
		if o.Entity != e.ID || o.Resource != "" && o.Resource != resource || !o.Until.After(r.now) {
			continue
		}
		r.expires(o.Until)
		answer.override(first, o, like)
	}
	answer.finish(first, r.subject.Entity)
}
