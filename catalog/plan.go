package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/badinput"
)

// Doing is what a step of a plan does.
type Doing string

// What steps do.
const (
	Creates Doing = "create"
	Changes Doing = "change"
	Adopts  Doing = "adopt" // it is stored as declared, but not as the file's own
	Removes Doing = "remove"
)

// Step is one record that a plan changes.
type Step struct {
	Doing  Doing
	What   string // "limits of tier pro on chat"
	Before string // for people; "" if it was not there
	After  string // "" if it goes

	mutation      Mutation
	action        string
	subject       string
	before, after any
}

// String is the step on one line.
func (s Step) String() string {
	switch s.Doing {
	case Creates:
		return fmt.Sprintf("+ %s: %s", s.What, s.After)
	case Removes:
		return fmt.Sprintf("- %s: %s", s.What, s.Before)
	case Adopts:
		return fmt.Sprintf("= %s: %s (stored already; from now on the file's)", s.What, s.After)
	}
	return fmt.Sprintf("~ %s: %s -> %s", s.What, s.Before, s.After)
}

// Plan is how what is stored differs from a declaration, and what it takes to
// make it the same.
type Plan struct {
	Namespace string
	Name      string // of the declaration
	Steps     []Step
	Warnings  []string

	guards []Mutation
}

// Empty reports whether what is stored is what is declared.
func (p *Plan) Empty() bool { return len(p.Steps) == 0 }

// String is the plan for people to read.
func (p *Plan) String() string {
	var b strings.Builder
	counts := map[Doing]int{}
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
		counts[s.Doing]++
	}
	if p.Empty() {
		b.WriteString("nothing to do: what is stored is what is declared\n")
	} else {
		fmt.Fprintf(&b, "%d to create, %d to change, %d to adopt, %d to remove\n", counts[Creates], counts[Changes], counts[Adopts], counts[Removes])
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// Plan compares a declaration with what is stored in a namespace. What the
// declaration does not mention is removed if a declaration of the same name
// has stored it, and left alone if not. An entity of which only limits are
// declared is not made or changed itself.
func (c *Catalog) Plan(ctx context.Context, namespace string, d Declaration) (*Plan, error) {
	if d.Name == "" {
		return nil, badinput.Field("name", `""`, "a declaration must have a name to own what it stores")
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if _, err := c.namespaceRecord(ctx, namespace); err != nil {
		return nil, err
	}
	p := &planner{
		plan: &Plan{Namespace: namespace, Name: d.Name}, declared: &d,
		stored: map[RecordKey]*Record{}, wanted: map[RecordKey]Record{}, removed: map[RecordKey]bool{},
		b: c.Edit(namespace, By{}).build(ctx),
	}
	// Whatever the rules depend on must still be so when the plan is applied.
	for _, guard := range []string{guardTree, guardTiers} {
		if err := p.b.rely(guard); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{p.readOwned, p.tiers, p.entities, p.limits, p.removals, p.checkTiers, p.checkTree, p.warn} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.plan.guards = p.b.batch.Mutations
	return p.plan, nil
}

// planner makes one plan.
type planner struct {
	plan     *Plan
	declared *Declaration
	b        *build // for reading, and for the guards

	stored  map[RecordKey]*Record // as read; nil if not there
	wanted  map[RecordKey]Record  // as declared
	removed map[RecordKey]bool
}

// readOwned reads what a declaration of this name has stored.
func (p *planner) readOwned() error {
	for _, kind := range []Kind{KindTier, KindEntity, KindSystemLimits, KindResourceLimits, KindTierLimits, KindEntityLimits} {
		records, err := p.b.e.catalog.all(p.b.ctx, ListQuery{Namespace: p.plan.Namespace, Kind: kind, Source: p.plan.Name})
		if err != nil {
			return err
		}
		for _, r := range records {
			p.stored[r.RecordKey] = &r
		}
	}
	return nil
}

// read is what is stored, read once.
func (p *planner) read(k RecordKey) (*Record, error) {
	if r, ok := p.stored[k]; ok {
		return r, nil
	}
	r, err := p.b.read(k)
	if err == nil {
		p.stored[k] = r
	}
	return r, err
}

// want plans that a record is as declared. what, text and old describe it.
func (p *planner) want(r Record, kind, subject string, describe func(Record) (what, text string, v any, err error)) error {
	p.wanted[r.RecordKey] = r
	old, err := p.read(r.RecordKey)
	if err != nil {
		return err
	}
	what, text, after, err := describe(r)
	if err != nil {
		return err
	}
	s := Step{Doing: Creates, What: what, After: text, subject: subject, after: after, mutation: Mutation{Op: Put, Record: r, If: IfAbsent}}
	s.action = kind + ".create"
	if old != nil {
		if old.Source != "" && old.Source != p.plan.Name {
			return fmt.Errorf("%s is declared by %s: %w", what, old.Source, ErrExists)
		}
		_, s.Before, s.before, err = describe(*old)
		if err != nil {
			return err
		}
		s.mutation.If, s.Doing, s.action = old.Version, Changes, kind+".update"
		if s.Before == s.After {
			if old.Source == p.plan.Name {
				return nil
			}
			s.Doing = Adopts
		}
	}
	if kind == "limits" {
		s.action = "limits.set"
	}
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

func describeTier(r Record) (string, string, any, error) {
	t, err := tierOf(r)
	text := t.Description
	if text == "" {
		text = "no description"
	}
	return "tier " + t.Name, text, &t, err
}

func describeEntity(r Record) (string, string, any, error) {
	e, err := entityOf(r)
	var parts []string
	for _, f := range []struct{ name, value string }{{"name", e.Name}, {"tier", e.Tier}, {"parent", e.Parent}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	if e.Cascade {
		parts = append(parts, "cascades")
	}
	for _, k := range slices.Sorted(maps.Keys(e.Metadata)) {
		parts = append(parts, fmt.Sprintf("%s=%q", k, e.Metadata[k]))
	}
	return "entity " + e.ID, strings.Join(parts, ", "), &e, err
}

func describeLimits(r Record) (string, string, any, error) {
	l, err := limitsOf(r)
	return "limits of " + l.Scope.String(), l.Limits.String(), &l, err
}

func (p *planner) tiers() error {
	for _, name := range slices.Sorted(maps.Keys(p.declared.Tiers)) {
		t := Tier{Name: name, Description: p.declared.Tiers[name].Description, Source: p.plan.Name, Updated: p.b.now}
		r, err := t.record(p.plan.Namespace)
		if err != nil {
			return err
		}
		if err := p.want(r, "tier", TierSubjectPrefix+name, describeTier); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) entities() error {
	for _, id := range slices.Sorted(maps.Keys(p.declared.Entities)) {
		declared := p.declared.Entities[id]
		e := declared.entity(id)
		if e.same(&Entity{}) {
			continue
		}
		e.Source, e.Created, e.Updated = p.plan.Name, p.b.now, p.b.now
		old, err := p.read(entityKey(p.plan.Namespace, id))
		if err != nil {
			return err
		}
		if old != nil {
			was, err := entityOf(*old)
			if err != nil {
				return err
			}
			e.Created = was.Created
		}
		r, err := e.record(p.plan.Namespace)
		if err != nil {
			return err
		}
		if err := p.want(r, "entity", id, describeEntity); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) limits() error {
	return p.declared.scopes(func(s Scope, l Limits) error {
		stored := StoredLimits{Scope: s, Limits: l, Source: p.plan.Name, Updated: p.b.now}
		r, err := stored.record(p.plan.Namespace)
		if err != nil {
			return err
		}
		return p.want(r, "limits", s.subject(), describeLimits)
	})
}

// removals plans that what the file owns and does not mention any more goes.
func (p *planner) removals() error {
	var gone []Record
	for k, r := range p.stored {
		if _, ok := p.wanted[k]; !ok && r != nil && r.Source == p.plan.Name {
			gone = append(gone, *r)
		}
	}
	slices.SortFunc(gone, func(a, b Record) int {
		return strings.Compare(fmt.Sprint(a.Kind, "\x00", a.ID, "\x00", a.Sub), fmt.Sprint(b.Kind, "\x00", b.ID, "\x00", b.Sub))
	})
	for _, r := range gone {
		p.removed[r.RecordKey] = true
		s := Step{Doing: Removes, mutation: Mutation{Op: Delete, Record: Record{RecordKey: r.RecordKey}, If: r.Version}}
		var err error
		switch r.Kind {
		case KindTier:
			s.action, s.subject = "tier.delete", TierSubjectPrefix+r.ID
			s.What, s.Before, s.before, err = describeTier(r)
		case KindEntity:
			s.action, s.subject = "entity.delete", r.ID
			s.What, s.Before, s.before, err = describeEntity(r)
		default:
			s.action, s.subject = "limits.remove", scopeOf(r.RecordKey).subject()
			s.What, s.Before, s.before, err = describeLimits(r)
		}
		if err != nil {
			return err
		}
		p.plan.Steps = append(p.plan.Steps, s)
	}
	return nil
}

// Apply makes what is stored what the plan says, all or nothing, with one
// audit event for each step. If anything that the plan was made of has changed
// since, it is refused with [ErrConflict]: make a new plan.
func (e *Editor) Apply(ctx context.Context, p *Plan) error {
	if p.Namespace != e.namespace {
		return badinput.Field("plan.namespace", p.Namespace, "the plan was made for another namespace than "+e.namespace)
	}
	if err := e.by.validate(); err != nil {
		return err
	}
	if p.Empty() {
		return nil
	}
	b := e.build(ctx)
	if err := b.namespaceExists(); err != nil {
		return err
	}
	b.batch.Mutations = append(b.batch.Mutations, p.guards...)
	for _, s := range p.Steps {
		b.batch.Mutations = append(b.batch.Mutations, s.mutation)
		if err := b.event(s.action, s.subject, s.before, s.after); err != nil {
			return err
		}
	}
	_, err := e.apply(ctx, &b.batch)
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("the plan is out of date: %w", err)
	}
	return err
}
