package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func usageValues(q catalog.UsedQuery) url.Values {
	return Page{Cursor: q.Cursor, Max: q.Max}.values("entity", q.Entity, "resource", q.Resource, "by", string(q.Span),
		"from", moment(q.From), "to", moment(q.To))
}

// Usage lists what was consumed by an entity, of a resource or both, by the
// hour or day.
func (c *Client) Usage(ctx context.Context, q catalog.UsedQuery) (catalog.UsedPage, error) {
	return ask[catalog.UsedPage](ctx, c, get(usageValues(q), "usage"))
}

// UsageSummary adds usage up over a time.
func (c *Client) UsageSummary(ctx context.Context, q catalog.UsedQuery) (catalog.UsedPage, error) {
	return ask[catalog.UsedPage](ctx, c, get(usageValues(q), "usage", "summary"))
}

// Audit lists what was changed, the newest first unless q.Oldest is set.
func (c *Client) Audit(ctx context.Context, q catalog.AuditQuery) (catalog.AuditPage, error) {
	return c.audit(ctx, q, "")
}

func (c *Client) audit(ctx context.Context, q catalog.AuditQuery, namespaces string) (catalog.AuditPage, error) {
	order := ""
	if q.Oldest {
		order = "oldest"
	}
	return ask[catalog.AuditPage](ctx, c, get(Page{Cursor: q.Cursor, Max: q.Max}.values(
		"subject", q.Subject, "order", order, "namespaces", namespaces, "from", moment(q.From), "to", moment(q.To)), "audit"))
}

// NamespaceAudit lists what became of namespaces themselves.
func (c *Client) NamespaceAudit(ctx context.Context, q catalog.AuditQuery) (catalog.AuditPage, error) {
	return c.audit(ctx, q, "true")
}

// ArchiveAudit writes the events before a time to w, oldest first, as JSON
// lines compressed with gzip. They stay stored until [Client.PruneArchivedAudit]. An
// error means that w has only a part.
func (c *Client) ArchiveAudit(ctx context.Context, before time.Time, w io.Writer) error {
	response, err := c.send(ctx, get(values("before", moment(before)), "audit", "archive"))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, MaxResponse))
		return errors.Join(problem(response, text), err)
	}
	_, err = io.Copy(w, response.Body)
	return err
}

// PruneArchivedAudit removes the events before a time if they are exactly as
// many as [Client.ArchiveAudit] has written with that time, and nothing
// otherwise.
func (c *Client) PruneArchivedAudit(ctx context.Context, before time.Time, archived int) error {
	_, err := ask[struct{ Removed int }](ctx, c, remove(0, values("before", moment(before), "archived", strconv.Itoa(archived)), "audit"))
	return err
}

// PruneAudit removes the events before a time and answers how many.
func (c *Client) PruneAudit(ctx context.Context, before time.Time) (int, error) {
	answer, err := ask[struct{ Removed int }](ctx, c, remove(0, values("before", moment(before)), "audit"))
	return answer.Removed, err
}

// Plan is how what is stored differs from a policy file.
type Plan struct {
	Empty    bool       `json:"empty"`
	Text     string     `json:"text"` // for people
	Steps    []PlanStep `json:"steps"`
	Warnings []string   `json:"warnings,omitempty"`
	Applied  bool       `json:"applied"`
}

// PlanStep is one change that a plan makes.
type PlanStep struct {
	Doing  catalog.Doing `json:"doing"`
	What   string        `json:"what"`
	Before string        `json:"before,omitempty"`
	After  string        `json:"after,omitempty"`
}

// Plan compares a policy file, as YAML or JSON, with what is stored. name is
// who owns what the file declares; "" means "limits".
func (c *Client) Plan(ctx context.Context, name string, file io.Reader) (Plan, error) {
	return c.plan(ctx, "plan", name, file)
}

// Apply stores what a policy file declares, all or nothing.
func (c *Client) Apply(ctx context.Context, name string, file io.Reader) (Plan, error) {
	return c.plan(ctx, "apply", name, file)
}

func (c *Client) plan(ctx context.Context, verb, name string, file io.Reader) (Plan, error) {
	return ask[Plan](ctx, c, call{method: "POST", path: at(verb), query: values("name", name), body: file})
}
