package catalog

import (
	"fmt"
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
)

// Resolution is which limits apply to a subject, and why. It is shared: do
// not change it.
type Resolution struct {
	Subject Subject
	Tier    string // of the entity, as it counts
	Known   bool   // the entity has a record

	// Applied are the limits of the entity, and then those of each ancestor
	// that it cascades to.
	Applied []Applied

	// Hidden are limits of less specific levels that do not apply because a
	// more specific level has limits, but not these: a custom tpm hides
	// everybody's rpm. That may be meant, or a surprise.
	Hidden []Hidden

	demands []sluice.Demand // one for each of Applied, at a cost of one token
	missing bool            // the namespace is not there
}

// Applied is one limit that applies.
type Applied struct {
	Entity  string // the subject's, or an ancestor
	Limit   string // its name
	Setting Setting
	Level   sluice.Level
	From    From

	// Until and Reason are those of an override; it counts as of the level
	// of its entity, or entity and resource.
	Until  time.Time
	Reason string
}

// Hidden is a limit that a more specific level hides.
type Hidden struct {
	Entity  string
	Limit   string
	Setting Setting
	Level   sluice.Level // where it is
	By      sluice.Level // the level that applies instead
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

// mentions reports whether the limits of this entity that apply or are hidden
// have one of that name.
func (r *Resolution) mentions(first int, entity, name string) bool {
	for _, a := range r.Applied[first:] {
		if a.Limit == name {
			return true
		}
	}
	for _, h := range r.Hidden {
		if h.Entity == entity && h.Limit == name {
			return true
		}
	}
	return false
}

// override replaces the numbers of a limit, or adds it. One for this resource
// beats one for all.
func (r *Resolution) override(first int, o Override) {
	a := Applied{Entity: o.Entity, Limit: o.Limit, Setting: o.Setting, Level: Scope{Entity: o.Entity, Resource: o.Resource}.Level(),
		From: FromOverride, Until: o.Until, Reason: o.Reason}
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

// prepare makes the demands.
func (r *Resolution) prepare() {
	r.demands = make([]sluice.Demand, len(r.Applied))
	for i, a := range r.Applied {
		r.demands[i] = a.demand(&r.Subject)
	}
}

func (a *Applied) demand(s *Subject) sluice.Demand {
	return sluice.Demand{
		Key:   sluice.Key{Namespace: s.Namespace, Entity: a.Entity, Resource: s.Resource, Limit: a.Limit},
		Limit: a.Setting.Limit, OnUnavailable: a.Setting.OnUnavailable,
		Critical: a.Setting.Critical, Shadow: a.Setting.Shadow, Level: a.Level,
	}
}

// Demands appends one demand for each limit that applies, ancestors included,
// so that one take decides them all or nothing. A cost named "" is for every
// limit that has no cost of its own; without any it is one token. If dst has
// room it allocates nothing.
func (r *Resolution) Demands(dst []sluice.Demand, costs ...sluice.LimitCost) []sluice.Demand {
	first := len(dst)
	dst = append(dst, r.demands...)
	setCosts(dst[first:], costs)
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

// DemandsWith is Demands with the call's own limits for the entity, which
// beat all that is stored. Those of ancestors stay.
func (r *Resolution) DemandsWith(dst []sluice.Demand, limits Limits, costs ...sluice.LimitCost) []sluice.Demand {
	first := len(dst)
	for _, name := range limits.Names() {
		a := Applied{Entity: r.Subject.Entity, Limit: name, Setting: limits[name], Level: sluice.LevelCall}
		dst = append(dst, a.demand(&r.Subject))
	}
	for _, d := range r.demands {
		if d.Key.Entity != r.Subject.Entity {
			dst = append(dst, d)
		}
	}
	setCosts(dst[first:], costs)
	return dst
}

// Explain says in words which limits apply, from where, and which are hidden.
func (r *Resolution) Explain() string {
	var b strings.Builder
	s := &r.Subject
	fmt.Fprintf(&b, "%s", orEverybody(s.Entity))
	if s.Resource != "" {
		fmt.Fprintf(&b, " on %s", s.Resource)
	}
	if r.Tier != "" {
		fmt.Fprintf(&b, ", tier %s", r.Tier)
	}
	b.WriteString(":\n")
	if len(r.Applied) == 0 {
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
	for _, h := range r.Hidden {
		fmt.Fprintf(&b, "  warning: %s\n", h)
	}
	return b.String()
}
