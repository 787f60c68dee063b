package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Used is what was consumed by an entity, of a resource, under a limit.
type Used struct {
	Entity   string        `json:"entity"`
	Resource string        `json:"resource"`
	Limit    string        `json:"limit"`
	Start    time.Time     `json:"start,omitzero"`     // of the hour or day; zero in a summary and in a total
	Amount   sluice.Amount `json:"consumed"`           // net: the cost of what was taken less what was given back
	Count    int64         `json:"takes"`              // takes
	Last     time.Time     `json:"lastTaken,omitzero"` // when it was last taken, if that is known
}

// UsedQuery selects usage in a time. Usage needs an entity, a resource or
// both; a summary can also be of the whole namespace.
type UsedQuery struct {
	Entity   string
	Resource string
	Span     Span      // the default is Hourly; Total ignores From and To
	From     time.Time // of the hour or day that it falls into; the default is a day, or 30 days, before To
	To       time.Time // not included; the default is now
	Cursor   string
	Max      int // a page: 1 to 1000; 0 means 100
}

// UsedPage is one page of usage.
type UsedPage struct {
	Used []Used `json:"used"`
	Next string `json:"next,omitempty"`
}

func (c *Catalog) usageQuery(namespace string, q UsedQuery) (UsageQuery, error) {
	if err := pageSize(&q.Max); err != nil {
		return UsageQuery{}, err
	}
	if q.Span == "" {
		q.Span = Hourly
	}
	if q.Span != Hourly && q.Span != Daily && q.Span != Total {
		return UsageQuery{}, badinput.Field("usage.span", q.Span, "must be hour, day or total")
	}
	if q.To.IsZero() {
		q.To = c.now()
	}
	if q.From.IsZero() {
		q.From = q.To.AddDate(0, 0, -1)
		if q.Span == Daily {
			q.From = q.To.AddDate(0, 0, -30)
		}
	}
	if !q.From.Before(q.To) {
		return UsageQuery{}, badinput.Field("usage.from", q.From.Format(time.RFC3339), "must be before the end, "+q.To.Format(time.RFC3339))
	}
	return UsageQuery{
		Namespace: namespace, Entity: q.Entity, Resource: q.Resource, Span: q.Span,
		From: q.Span.start(q.From), To: q.To.UTC(), Cursor: q.Cursor, Max: q.Max,
	}, nil
}

// Usage lists usage by the hour or day, or totals, series by series: of an
// entity in order of resource, limit and time; of a resource alone in order of
// entity, limit and time. The last second may be missing.
func (c *Catalog) Usage(ctx context.Context, namespace string, q UsedQuery) (UsedPage, error) {
	if q.Entity == "" && q.Resource == "" {
		return UsedPage{}, badinput.Field("usage.entity", `""`, "name an entity, a resource or both; ask for a summary of everything")
	}
	return c.usage(ctx, namespace, q, c.store.Usage)
}

// UsageSummary adds usage up over the time asked for, in order of entity,
// resource and limit.
func (c *Catalog) UsageSummary(ctx context.Context, namespace string, q UsedQuery) (UsedPage, error) {
	return c.usage(ctx, namespace, q, c.store.SumUsage)
}

func (c *Catalog) usage(ctx context.Context, namespace string, q UsedQuery, read func(context.Context, UsageQuery) (UsagePage, error)) (UsedPage, error) {
	uq, err := c.usageQuery(namespace, q)
	if err != nil {
		return UsedPage{}, err
	}
	rows, err := read(ctx, uq)
	page := UsedPage{Next: rows.Next}
	for _, r := range rows.Rows {
		page.Used = append(page.Used, r.used())
	}
	return page, err
}

// used is r for people to see. While nodes write in any order, a refund may be
// stored before its take, but nobody has consumed less than nothing.
func (r *UsageRow) used() Used {
	return Used{r.Entity, r.Resource, r.Limit, r.Start, sluice.Thousandths(max(r.Amount, 0)), r.Count, r.Last}
}

// maxTotals is how many totals are read at once; see [Store.Totals].
const maxTotals = 1000

// Totals finds what was ever consumed in series of a namespace. Those that were
// never used are left out. The last second may be missing.
func (c *Catalog) Totals(ctx context.Context, namespace string, series []Series) (map[Series]Used, error) {
	asked := make(map[Series]Series, len(series)) // by what is stored
	stored := make([]Series, len(series))
	for i, s := range series {
		k := printable(sluice.Key{Entity: s.Entity, Resource: s.Resource, Limit: s.Limit})
		stored[i] = Series{k.Entity, k.Resource, k.Limit}
		asked[stored[i]] = s
	}
	totals := make(map[Series]Used, len(series))
	for some := range slices.Chunk(stored, maxTotals) {
		rows, err := c.store.Totals(ctx, namespace, some)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			u := rows[i].used()
			totals[asked[Series{u.Entity, u.Resource, u.Limit}]] = u
		}
	}
	return totals, nil
}
