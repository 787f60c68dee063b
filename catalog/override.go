package catalog

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Override is another number for one limit of one entity, for a while. It
// beats every level but the call's own.
type Override struct {
	Entity   string    `json:"entity"`
	Limit    string    `json:"limit"`              // the limit's name
	Resource string    `json:"resource,omitempty"` // "" for every resource
	Setting  Setting   `json:"setting"`
	Until    time.Time `json:"until"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Created  time.Time `json:"created"`
	Version  int64     `json:"version"`
}

// MaxOverrides is how many overrides an entity may have at once.
const MaxOverrides = 100

type overrideData struct {
	Setting storedSetting `json:"setting"`
	Until   time.Time     `json:"until"`
	By      string        `json:"by"`
	Reason  string        `json:"reason"`
	Created time.Time     `json:"created"`
}

// Names of limits have no @, so the two parts cannot be confused.
func overrideKey(namespace, entity, limit, resource string) RecordKey {
	return RecordKey{namespace, KindOverride, entity, limit + "@" + resource}
}

func overrideOf(r Record) (Override, error) {
	var d overrideData
	err := decode(r, &d)
	setting, wrong := d.Setting.setting()
	limit, resource, _ := strings.Cut(r.Sub, "@")
	return Override{r.ID, limit, resource, setting, d.Until, d.By, d.Reason, d.Created, r.Version}, cmp.Or(err, wrong)
}

func (o *Override) validate(now time.Time) error {
	if err := checkStorable("override.entity", o.Entity); err != nil {
		return err
	}
	if err := checkName("override.limit", o.Limit); err != nil {
		return err
	}
	if o.Resource != "" {
		if err := checkID("override.resource", o.Resource); err != nil {
			return err
		}
	}
	if err := o.Setting.validate(); err != nil {
		return fmt.Errorf("override.%w", err)
	}
	if !o.Until.After(now) || o.Until.After(now.AddDate(1, 0, 0)) {
		return badinput.Field("override.until", o.Until.Format(time.RFC3339), "must be in the future and at most a year ahead; store limits for longer")
	}
	return nil
}

// SetOverride sets an override, in place of one for the same limit and
// resource. The editor's reason becomes its reason, and must be given.
// Overrides that have lapsed are removed on the way.
func (e *Editor) SetOverride(ctx context.Context, o Override) (Override, error) {
	if err := o.validate(e.catalog.now()); err != nil {
		return Override{}, err
	}
	if e.by.Reason == "" {
		return Override{}, badinput.Field("by.reason", `""`, "must say why the limit is overridden")
	}
	key := overrideKey(e.namespace, o.Entity, o.Limit, o.Resource)
	_, err := e.attempt(ctx, func(b *build) error {
		o.By, o.Reason, o.Created, o.Until = e.by.Actor, e.by.Reason, b.now, o.Until.UTC().Truncate(time.Microsecond)
		all, err := e.catalog.all(ctx, ListQuery{Namespace: e.namespace, Kind: KindOverride, ID: o.Entity})
		if err != nil {
			return err
		}
		var old *Record
		var before *Override
		count := 1
		for _, r := range all {
			was, err := overrideOf(r)
			switch {
			case err != nil:
				return err
			case r.RecordKey == key:
				old, before = &r, &was
			case !was.Until.After(b.now):
				b.remove(&r, 0)
			default:
				count++
			}
		}
		if count > MaxOverrides {
			return badinput.Field("override.entity", o.Entity, fmt.Sprintf("has %d overrides already, which is the most", MaxOverrides))
		}
		data, err := encode(overrideData{o.Setting.stored(), o.Until, o.By, o.Reason, o.Created})
		if err != nil {
			return err
		}
		b.put(Record{RecordKey: key, Under: o.Resource, Data: data}, old, 0)
		return b.event("override.set", o.Entity, before, &o)
	}, &o.Version)
	return o, err
}

// RemoveOverride ends an override before its time.
func (e *Editor) RemoveOverride(ctx context.Context, entity, limit, resource string) error {
	_, err := e.attempt(ctx, func(b *build) error {
		old, before, err := mustDecode(b, overrideKey(e.namespace, entity, limit, resource),
			fmt.Sprintf("override of %s for %s", excerpt.Of(limit), excerpt.Of(entity)), overrideOf)
		if err != nil {
			return err
		}
		b.remove(old, 0)
		return b.event("override.remove", entity, &before, nil)
	}, nil)
	return err
}

// OverridePage is one page of overrides.
type OverridePage struct {
	Overrides []Override `json:"overrides"`
	Next      string     `json:"next,omitempty"`
}

// Overrides lists the overrides of an entity, or of all if entity is "",
// lapsed ones too until they are removed. max is 1 to 1000, or 0 for 100.
func (c *Catalog) Overrides(ctx context.Context, namespace, entity, cursor string, max int) (OverridePage, error) {
	all, next, err := list(ctx, c, ListQuery{Namespace: namespace, Kind: KindOverride, ID: entity, Cursor: cursor, Max: max}, overrideOf)
	return OverridePage{all, next}, err
}
