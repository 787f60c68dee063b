package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/excerpt"
)

// Tier is a named plan, such as free or pro. Its limits are stored under
// [Scope]{Tier: name}.
type Tier struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Source      string    `json:"source,omitempty"` // the declaration it came from
	Version     int64     `json:"version"`
	Updated     time.Time `json:"updated"`
}

type tierData struct {
	Description string    `json:"description,omitempty"`
	Updated     time.Time `json:"updated"`
}

func tierKey(namespace, name string) RecordKey { return RecordKey{namespace, KindTier, name, ""} }

func (t *Tier) record(namespace string) (Record, error) {
	data, err := encode(tierData{t.Description, t.Updated})
	return Record{RecordKey: tierKey(namespace, t.Name), Source: t.Source, Data: data}, err
}

func tierOf(r Record) (Tier, error) {
	var d tierData
	err := decode(r, &d)
	return Tier{r.ID, d.Description, r.Source, r.Version, d.Updated}, err
}

// Tier is one stored tier; [ErrNotFound] if there is none of that name.
func (c *Catalog) Tier(ctx context.Context, namespace, name string) (Tier, error) {
	return get(ctx, c, tierKey(namespace, name), "tier", tierOf)
}

// TierPage is one page of tiers.
type TierPage struct {
	Tiers []Tier `json:"tiers"`
	Next  string `json:"next,omitempty"`
}

// Tiers lists stored tiers in order of name. max is 1 to 1000, or 0 for 100.
func (c *Catalog) Tiers(ctx context.Context, namespace, cursor string, max int) (TierPage, error) {
	all, next, err := list(ctx, c, ListQuery{Namespace: namespace, Kind: KindTier, Cursor: cursor, Max: max}, tierOf)
	return TierPage{all, next}, err
}

// PutTier creates a tier or changes its description. If t.Version is not 0,
// it must be the version stored.
func (e *Editor) PutTier(ctx context.Context, t Tier) (Tier, error) {
	if err := checkName("tier.name", t.Name); err != nil {
		return Tier{}, err
	}
	if err := checkText("tier.description", t.Description); err != nil {
		return Tier{}, err
	}
	version := t.Version
	_, err := e.attempt(ctx, func(b *build) error {
		old, err := b.read(tierKey(e.namespace, t.Name))
		if err != nil {
			return err
		}
		var before *Tier
		action := "tier.create"
		t.Source = ""
		if old != nil {
			was, err := tierOf(*old)
			if err != nil {
				return err
			}
			before, action, t.Source = &was, "tier.update", was.Source
		}
		t.Updated = b.now
		r, err := t.record(e.namespace)
		if err != nil {
			return err
		}
		b.put(r, old, version)
		return b.event(action, TierSubjectPrefix+t.Name, before, &t)
	}, &t.Version)
	return t, err
}

// DeleteTier deletes a tier with its limits. It is refused with [ErrInUse]
// while entities or keys have it.
func (e *Editor) DeleteTier(ctx context.Context, name string, version int64) error {
	_, err := e.attempt(ctx, func(b *build) error {
		if err := b.rely(guardTiers); err != nil {
			return err
		}
		old, before, err := mustDecode(b, tierKey(e.namespace, name), "tier "+excerpt.Of(name), tierOf)
		if err != nil {
			return err
		}
		if err := b.unused(name); err != nil {
			return err
		}
		b.remove(old, version)
		limits, err := e.catalog.all(ctx, ListQuery{Namespace: e.namespace, Kind: KindTierLimits, ID: name})
		if err != nil {
			return err
		}
		for _, r := range limits {
			b.remove(&r, 0)
		}
		return b.event("tier.delete", TierSubjectPrefix+name, &before, nil)
	}, nil)
	return err
}

// unused says whether nobody has a tier; the batch must rely on the guard.
func (b *build) unused(tier string) error {
	for _, kind := range []Kind{KindEntity, KindKey} {
		page, err := b.e.catalog.store.List(b.ctx, ListQuery{Namespace: b.e.namespace, Kind: kind, Tier: tier, Max: 1})
		if err != nil {
			return err
		}
		if len(page.Records) > 0 {
			return fmt.Errorf("tier %q: %w: %s %q has it", tier, ErrInUse, kind, excerpt.Of(page.Records[0].ID))
		}
	}
	return nil
}

// tierExists makes the batch hold only while the tier is there. A tier that
// the policy file declares is there as long as the file says so.
func (b *build) tierExists(tier string) error {
	if tier == "" {
		return nil
	}
	r, err := b.read(tierKey(b.e.namespace, tier))
	if err != nil {
		return err
	}
	if r == nil {
		if _, ok := b.e.catalog.Declaration(b.e.namespace).Tiers[tier]; ok {
			return nil
		}
		return about("tier", tier, ErrNotFound)
	}
	b.check(r.RecordKey, IfPresent)
	b.touch(guardTiers)
	return nil
}
