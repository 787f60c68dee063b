package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// From is where a limit's numbers are kept.
type From string

// The places where limits are kept.
const (
	FromStore    From = "stored"
	FromFile     From = "file"
	FromConfig   From = "default"
	FromOverride From = "override"
	FromCall     From = "call" // nowhere: the call brought them
)

// DefaultLimit is the name of a limit that is written without one.
const DefaultLimit = "requests"

// Resolution is which limits apply to a subject, and why. It is shared: do
// not change it.
type Resolution struct {
	Subject Subject // its entity is "" if nothing can be stored about who asked
	Tier    string  // of the entity, as it counts
	Known   bool    // the entity has a record

	// Ancestors are the entity's parent, the parent's parent and so on,
	// whether it cascades to them or not.
	Ancestors []string

	// Applied are, for each resource, the limits of the entity, and then
	// those of each ancestor that it cascades to.
	Applied []Applied

	// Hidden are limits of less specific levels that do not apply because a
	// more specific level has limits, but not these: a custom tpm hides
	// everybody's rpm. That may be meant, or a surprise.
	Hidden []Hidden

	demands []sluice.Demand // one for each of Applied that limits, at a cost of one token
	missing bool            // the namespace is not there

	announced bool // Applied has only what callers are told about
}

// Applied is one limit that applies.
type Applied struct {
	Entity   string // the subject's, or an ancestor
	Resource string
	Limit    string // its name
	Setting  Setting
	Level    sluice.Level
	From     From

	// Label names it for people and response headers: the resource, followed
	// by the limit's name if it has one of its own, after the ancestor's name.
	Label string

	// Until and Reason are those of an override; it counts as of the level
	// of its entity, or entity and resource.
	Until  time.Time
	Reason string

	Unlimited bool  // it refuses nothing and is not demanded; it hides less specific levels
	terms     Terms // of the resource
}

// Hidden is a limit that a more specific level hides.
type Hidden struct {
	Entity   string
	Resource string
	Limit    string
	Setting  Setting
	Level    sluice.Level // where it is
	By       sluice.Level // the level that applies instead
}

// String is the warning.
func (h Hidden) String() string {
	return fmt.Sprintf("%s %s of level %s does not apply to %s: the limits of level %s replace it as a whole and have no %s",
		h.Limit, h.Setting.Limit, h.Level, orEverybody(h.Entity), h.By, h.Limit)
}

func orEverybody(entity string) string {
	if entity == "" {
		return "anybody"
	}
	return entity
}

// HiddenOf is Hidden with the subject named, which may be [Anonymous].
func (r *Resolution) HiddenOf(entity string) []Hidden {
	all := slices.Clone(r.Hidden)
	for i := range all {
		if all[i].Entity == r.Subject.Entity {
			all[i].Entity = entity
		}
	}
	return all
}

// mentions reports whether the limits of this entity on a resource that apply
// or are hidden have one of that name.
func (r *Resolution) mentions(first int, entity, resource, name string) bool {
	for _, a := range r.Applied[first:] {
		if a.Limit == name {
			return true
		}
	}
	for _, h := range r.Hidden {
		if h.Entity == entity && h.Resource == resource && h.Limit == name {
			return true
		}
	}
	return false
}

// override replaces the numbers of a limit, or adds it. One for this resource
// beats one for all.
func (r *Resolution) override(first int, o Override, a Applied) {
	a.Limit, a.Setting, a.Level = o.Limit, o.Setting, Scope{Entity: o.Entity, Resource: o.Resource}.Level()
	a.From, a.Until, a.Reason = FromOverride, o.Until, o.Reason
	for i := first; i < len(r.Applied); i++ {
		old := &r.Applied[i]
		if old.Limit != o.Limit {
			continue
		}
		if old.From != FromOverride || a.Level > old.Level {
			*old = a
		}
		return
	}
	r.Applied = append(r.Applied, a)
}

// finish names the limits from first on, which are those of one entity on one
// resource.
func (r *Resolution) finish(first int, subject string) {
	for i := first; i < len(r.Applied); i++ {
		a := &r.Applied[i]
		a.Unlimited, a.Label = a.Setting.Limit == sluice.Unlimited, a.Resource
		switch {
		case a.Resource == "":
			a.Label = a.Limit
		case a.Limit != DefaultLimit || len(r.Applied) > first+1:
			a.Label += "-" + a.Limit
		}
		if a.Entity != subject {
			a.Label = a.Entity + "/" + a.Label
		}
	}
}

// prepare makes the demands.
func (r *Resolution) prepare() {
	for i := range r.Applied {
		if a := &r.Applied[i]; !a.Unlimited {
			r.demands = append(r.demands, a.demand(r.Subject.Namespace))
		}
	}
}

// Unlimited reports whether limits apply and none of them refuses anything.
func (r *Resolution) Unlimited() bool { return len(r.Applied) > 0 && len(r.demands) == 0 }

// unannounced reports whether callers are not told about the limit.
func (a *Applied) unannounced() bool { return a.Setting.Unannounced || a.terms.Unannounced }

// Announced returns what of r callers may be told. It explains, and is not for
// deciding.
func (r *Resolution) Announced() *Resolution {
	told := *r
	told.announced = true
	told.Applied = slices.DeleteFunc(slices.Clone(r.Applied), func(a Applied) bool { return a.unannounced() })
	told.Hidden = slices.DeleteFunc(slices.Clone(r.Hidden), func(h Hidden) bool {
		return h.Setting.Unannounced || slices.ContainsFunc(r.Applied, func(a Applied) bool {
			return a.unannounced() && a.Entity == h.Entity && a.Resource == h.Resource
		})
	})
	return &told
}

func (a *Applied) demand(namespace string) sluice.Demand {
	d := sluice.Demand{
		Key:   sluice.Key{Namespace: namespace, Entity: a.Entity, Resource: a.Resource, Limit: a.Limit},
		Limit: a.Setting.Limit, OnUnavailable: a.Setting.OnUnavailable,
		Critical: a.Setting.Critical || a.terms.Critical, Shadow: a.Setting.Shadow || a.terms.Shadow,
		Unannounced: a.unannounced(), Level: a.Level,
	}
	if d.OnUnavailable == sluice.Degrade {
		d.OnUnavailable = a.terms.OnUnavailable
	}
	return d
}

// With returns r with the limits of a call in the place of the subject's own;
// those of ancestors stay. If own is nil, it is r.
func (r *Resolution) With(own Limits) *Resolution {
	if own == nil {
		return r
	}
	with := *r
	with.Applied, with.Hidden, with.demands = nil, nil, nil
	for _, name := range own.Names() {
		with.Applied = append(with.Applied, Applied{
			Entity: r.Subject.Entity, Resource: r.Subject.Resource, Limit: name, Setting: own[name], Level: sluice.LevelCall, From: FromCall,
		})
	}
	with.finish(0, r.Subject.Entity)
	for _, a := range r.Applied {
		if a.Entity != r.Subject.Entity {
			with.Applied = append(with.Applied, a)
		} else if _, named := own[a.Limit]; !named {
			with.Hidden = append(with.Hidden, Hidden{Entity: a.Entity, Resource: a.Resource, Limit: a.Limit, Setting: a.Setting, Level: a.Level, By: sluice.LevelCall})
		}
	}
	for _, h := range r.Hidden {
		if h.Entity != r.Subject.Entity {
			with.Hidden = append(with.Hidden, h)
		}
	}
	with.prepare()
	return &with
}

// Demands appends one demand for each limit that applies, ancestors included,
// so that one take decides them all or nothing. The subject's own are demanded
// of entity, which the subject may not name because it is [Anonymous]. A cost
// named "" is for every limit that has no cost of its own; without any it is
// one token. If dst has room, it allocates nothing.
func (r *Resolution) Demands(dst []sluice.Demand, entity string, costs ...sluice.LimitCost) []sluice.Demand {
	first := len(dst)
	for i := range r.demands {
		dst = append(dst, r.demands[i])
		if d := &dst[len(dst)-1]; d.Key.Entity == r.Subject.Entity {
			d.Key.Entity = entity
		}
	}
	setCosts(dst[first:], costs)
	return dst
}

// Labels appends the label of each limit on a resource that limits, ancestors
// included.
func (r *Resolution) Labels(dst []string, resource string) []string {
	for i := range r.Applied {
		if a := &r.Applied[i]; a.Resource == resource && !a.Unlimited {
			dst = append(dst, a.Label)
		}
	}
	return dst
}

func setCosts(demands []sluice.Demand, costs []sluice.LimitCost) {
	if len(costs) == 0 {
		return
	}
	for i := range demands {
		d := &demands[i]
		for j := range costs {
			if costs[j].Limit == d.Key.Limit {
				d.Cost = costs[j].Cost
				break
			}
			if costs[j].Limit == "" {
				d.Cost = costs[j].Cost // unless one of its own follows
			}
		}
	}
}

// Explain says in words which limits apply to an entity, from where, and which
// are hidden.
func (r *Resolution) Explain(entity string) string {
	var b strings.Builder
	s := &r.Subject
	fmt.Fprintf(&b, "%s", orEverybody(entity))
	if s.Resource != "" {
		fmt.Fprintf(&b, " on %s", s.Resource)
	}
	if r.Tier != "" {
		fmt.Fprintf(&b, ", tier %s", r.Tier)
	}
	b.WriteString(":\n")
	switch {
	case len(r.Applied) > 0:
	case r.announced: // others may apply
		b.WriteString("  no limit that callers are told of applies\n")
	default:
		b.WriteString("  no limit applies\n")
	}
	for _, a := range r.Applied {
		fmt.Fprintf(&b, "  %s %s: level %s, %s", a.Limit, a.Setting, a.Level, a.From)
		if a.Entity != s.Entity {
			fmt.Fprintf(&b, ", of %s", a.Entity)
		}
		if a.From == FromOverride {
			fmt.Fprintf(&b, " until %s (%s)", a.Until.Format(time.RFC3339), a.Reason)
		}
		b.WriteByte('\n')
	}
	for _, h := range r.HiddenOf(entity) {
		fmt.Fprintf(&b, "  warning: %s\n", h)
	}
	return b.String()
}
