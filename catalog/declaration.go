package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Declaration is what a file says about limits: the policy file, or one for
// [Catalog.Plan]. Where it came from (lines and columns) is its parser's
// business; Validate names the path of what is wrong, such as
// "tiers.pro.resources.chat.rpm".
type Declaration struct {
	// Name is who owns what the file declares, usually its name. Plans
	// remove only what a declaration of the same name has stored.
	Name string

	System    Limits
	Resources map[string]Limits
	Tiers     map[string]TierDeclaration
	Entities  map[string]EntityDeclaration

	// DefaultTier is for callers who have no tier, or one that neither the
	// file nor the catalog knows; AnonymousTier for those who are [Anonymous].
	// "" means none.
	DefaultTier, AnonymousTier string

	// KeyTiers are the tiers of API keys that stand for themselves, by entity,
	// "" for none: whoever asks about such an entity by its name need not know
	// its tier.
	KeyTiers map[string]string

	// Terms are how the limits of a resource apply, whatever their level. They,
	// the tiers of keys and the two tiers above are not stored by a plan.
	Terms map[string]Terms
}

// Terms are how the limits of a resource apply, beside what each [Setting]
// says.
type Terms struct {
	OnUnavailable sluice.OnUnavailable // of limits that say nothing else
	Critical      bool
	Shadow        bool
	Unannounced   bool // callers are not told about them
	Counts        Counted
	Prefix        string // what entities begin with, where it counts Values
}

// Counted is whose use of a resource is counted.
type Counted uint8

const (
	// Callers are entities: users, owners of keys, addresses without either.
	Callers Counted = iota
	// Users are callers that are not known by their address alone.
	Users
	// Keys are API keys, each by itself.
	Keys
	// Addresses are those that requests come from, whoever sends them. What a
	// tier has by default is for callers, so it does not apply to these, nor
	// to what follows.
	Addresses
	// Values are those of a header or claim; [Terms] has what their entities
	// begin with.
	Values
	// Everyone is all callers together.
	Everyone
)

// apart reports whether others than callers and their keys are counted.
func (c Counted) apart() bool { return c > Keys }

// Counts reports whether use of a resource is counted for an entity.
func (d *Declaration) Counts(resource, entity string) bool {
	t := d.Terms[resource]
	switch t.Counts {
	case Keys:
		return strings.HasPrefix(entity, "key:")
	case Addresses:
		return strings.HasPrefix(entity, "ip:")
	case Values:
		return strings.HasPrefix(entity, t.Prefix)
	case Everyone:
		return false
	}
	if _, itself := d.KeyTiers[entity]; strings.HasPrefix(entity, "key:") {
		return itself
	}
	return !strings.HasPrefix(entity, "header:") && !strings.HasPrefix(entity, "claim:") && (t.Counts == Callers || !strings.HasPrefix(entity, "ip:"))
}

// TierDeclaration declares a tier.
type TierDeclaration struct {
	Description string
	Limits      Limits            // the tier's default
	Resources   map[string]Limits // by resource
}

// EntityDeclaration declares an entity.
type EntityDeclaration struct {
	Name      string
	Parent    string
	Cascade   bool
	Tier      string
	Metadata  map[string]string
	Limits    Limits            // the entity's default
	Resources map[string]Limits // by resource
}

// at are the limits declared for a scope.
func (d *Declaration) at(s Scope) Limits {
	switch {
	case s.Entity != "" && s.Resource != "":
		return d.Entities[s.Entity].Resources[s.Resource]
	case s.Entity != "":
		return d.Entities[s.Entity].Limits
	case s.Tier != "" && s.Resource != "":
		return d.Tiers[s.Tier].Resources[s.Resource]
	case s.Tier != "":
		return d.Tiers[s.Tier].Limits
	case s.Resource != "":
		return d.Resources[s.Resource]
	}
	return d.System
}

// scopes calls f with every place for which limits are declared, in order.
func (d *Declaration) scopes(f func(Scope, Limits) error) error {
	each := func(s Scope, l Limits) error {
		if len(l) == 0 {
			return nil
		}
		return f(s, l)
	}
	if err := each(Scope{}, d.System); err != nil {
		return err
	}
	byResource := func(s Scope, resources map[string]Limits) error {
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			s.Resource = name
			if err := each(s, resources[name]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := byResource(Scope{}, d.Resources); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Tiers)) {
		if err := each(Scope{Tier: name}, d.Tiers[name].Limits); err != nil {
			return err
		}
		if err := byResource(Scope{Tier: name}, d.Tiers[name].Resources); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.Entities)) {
		if err := each(Scope{Entity: id}, d.Entities[id].Limits); err != nil {
			return err
		}
		if err := byResource(Scope{Entity: id}, d.Entities[id].Resources); err != nil {
			return err
		}
	}
	return nil
}

func (d *EntityDeclaration) entity(id string) Entity {
	return Entity{ID: id, Name: d.Name, Parent: d.Parent, Cascade: d.Cascade, Tier: d.Tier, Metadata: d.Metadata}
}

// Validate says what is wrong with d itself. Whether a tier or a parent that
// it names is there is for [Catalog.Plan] to say.
func (d *Declaration) Validate() error {
	if d.Name != "" {
		if err := checkID("name", d.Name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Tiers)) {
		if err := checkName("tiers", name); err != nil {
			return err
		}
		if err := checkText("tiers."+name+".description", d.Tiers[name].Description); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.Entities)) {
		declared := d.Entities[id]
		e := declared.entity(id)
		if err := e.validate(); err != nil {
			return fmt.Errorf("entities.%s: %w", excerpt.Of(id), err)
		}
	}
	return d.scopes(func(s Scope, l Limits) error {
		if err := s.validate(); err != nil {
			return err
		}
		return l.validate(path(s))
	})
}

// path is where a scope's limits stand in a file.
func path(s Scope) string {
	var p string
	switch {
	case s.Entity != "":
		p = "entities." + s.Entity
	case s.Tier != "":
		p = "tiers." + s.Tier
	case s.Resource != "":
		return "resources." + s.Resource
	default:
		return "system"
	}
	if s.Resource != "" {
		return p + ".resources." + s.Resource
	}
	return p + ".limits"
}
