package catalog

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
)

// Used is what was consumed by an entity, of a resource, under a limit.
type Used struct {
	Entity   string        `json:"entity"`
	Resource string        `json:"resource"`
	Limit    string        `json:"limit"`
	Start    time.Time     `json:"start,omitzero"` // of the hour or day; zero in a summary
	Amount   sluice.Tokens `json:"amount"`         // net: less what was given back
	Count    int64         `json:"count"`          // takes, adjustments and refunds
}

// UsedQuery selects usage in a time. Usage needs an entity, a resource or
// both; a summary can also be of the whole namespace.
type UsedQuery struct {
	Entity   string
	Resource string
	Span     Span      // the default is Hourly
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
	if q.Span != Hourly && q.Span != Daily {
		return UsageQuery{}, fieldError("usage.span", q.Span, "must be hour or day")
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
		return UsageQuery{}, fieldError("usage.from", q.From.Format(time.RFC3339), "must be before the end, "+q.To.Format(time.RFC3339))
	}
	return UsageQuery{
		Namespace: namespace, Entity: q.Entity, Resource: q.Resource, Span: q.Span,
		From: start(q.Span, q.From), To: q.To.UTC(), Cursor: q.Cursor, Max: q.Max,
	}, nil
}

// start is the beginning of the hour or day that a time is in.
func start(s Span, at time.Time) time.Time {
	if s == Daily {
		return at.UTC().Truncate(24 * time.Hour)
	}
	return at.UTC().Truncate(time.Hour)
}

// Usage lists usage by the hour or day: of an entity, series by series in
// order of resource, limit and time; of a resource alone in order of time,
// entity and limit. The last second may be missing.
func (c *Catalog) Usage(ctx context.Context, namespace string, q UsedQuery) (UsedPage, error) {
	if q.Entity == "" && q.Resource == "" {
		return UsedPage{}, fieldError("usage.entity", `""`, "name an entity, a resource or both; ask for a summary of everything")
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
		page.Used = append(page.Used, Used{r.Entity, r.Resource, r.Limit, r.Start, sluice.Tokens(r.Amount), r.Count})
	}
	return page, err
}
