package server

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/policy"
)

var recordRoutes = []route{
	{"GET /v1/usage", RoleRead, about(listUsage)},
	{"GET /v1/usage/summary", RoleRead, about(sumUsage)},
	{"GET /v1/audit", RoleAdmin, about(listAudit)},
	{"GET /v1/audit/archive", RoleAdmin, about(archiveAudit)},
	{"DELETE /v1/audit", RoleAdmin, about(pruneAudit)},
	{"POST /v1/plan", RoleRead, about(planLimits)},
	{"POST /v1/apply", RoleAdmin, about(applyLimits)},
}

func (q *stored) usage() (u catalog.UsedQuery, err error) {
	u = catalog.UsedQuery{Entity: q.query.Get("entity"), Resource: q.query.Get("resource"), Cursor: q.cursor}
	u.Max = q.most
	if u.From, u.To, err = q.between(); err != nil {
		return u, err
	}
	switch by := q.query.Get("by"); by {
	case "", "hour":
		u.Span = catalog.Hourly
	case "day":
		u.Span = catalog.Daily
	case "total":
		u.Span = catalog.Total
	default:
		return u, badinput.Field("by", by, "must be hour, day or total")
	}
	return u, nil
}

func listUsage(q *stored, w http.ResponseWriter) error {
	u, err := q.usage()
	if err != nil {
		return err
	}
	page, err := q.catalog.Usage(q.Context(), q.namespace, u)
	page.Used = orEmpty(page.Used)
	return list(w, page, err)
}

func sumUsage(q *stored, w http.ResponseWriter) error {
	u, err := q.usage()
	if err != nil {
		return err
	}
	page, err := q.catalog.UsageSummary(q.Context(), q.namespace, u)
	page.Used = orEmpty(page.Used)
	return list(w, page, err)
}

func listAudit(q *stored, w http.ResponseWriter) error {
	a := catalog.AuditQuery{Subject: q.query.Get("subject"), Cursor: q.cursor}
	switch order := q.query.Get("order"); order {
	case "", "newest":
	case "oldest":
		a.Oldest = true
	default:
		return badinput.Field("order", order, "must be newest or oldest")
	}
	namespaces, err := q.flag("namespaces")
	if err != nil {
		return err
	}
	all := strings.TrimSuffix(catalog.NamespaceSubjectPrefix, ":")
	namespaces = namespaces || a.Subject == all || strings.HasPrefix(a.Subject, catalog.NamespaceSubjectPrefix)
	if a.Subject == all {
		a.Subject = ""
	}
	if namespaces { // their events belong to the installation
		if err := q.everywhere(); err != nil {
			return err
		}
		q.namespace = ""
	}
	a.Max = q.most
	if a.From, a.To, err = q.between(); err != nil {
		return err
	}
	page, err := q.catalog.Audit(q.Context(), q.namespace, a)
	page.Events = orEmpty(page.Events)
	return list(w, page, err)
}

// before is the time that an archive or a prune goes up to.
func (q *stored) before() (time.Time, error) {
	t, err := q.time("before")
	if err == nil && t.IsZero() {
		err = badinput.Field("before", "", "must be the time to stop at")
	}
	return t, err
}

// archiveAudit sends the events before a time as gzip of JSON lines.
func archiveAudit(q *stored, w http.ResponseWriter) error {
	before, err := q.before()
	if err != nil {
		return err
	}
	sent := &download{w: w}
	if _, err = q.catalog.Archive(q.Context(), q.namespace, before, sent); err != nil && sent.begun {
		panic(http.ErrAbortHandler) // half an archive must not look like a whole one
	}
	return err
}

// download becomes the answer with its first byte. Until then the answer can
// be an error.
type download struct {
	w     http.ResponseWriter
	begun bool
}

func (d *download) Write(b []byte) (int, error) {
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", "application/gzip")
		d.w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl.gz"`)
	}
	return d.w.Write(b)
}

func pruneAudit(q *stored, w http.ResponseWriter) error {
	before, err := q.before()
	if err != nil {
		return err
	}
	if text := q.query.Get("archived"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return badinput.Field("archived", text, "must be the number of events that were archived")
		}
		err = q.edit().PruneArchived(q.Context(), before, n)
		return list(w, map[string]int{"removed": n}, err)
	}
	n, err := q.edit().PruneAudit(q.Context(), before)
	return list(w, map[string]int{"removed": n}, err)
}

// declared reads the body, a policy file, and what it is to be called. A file
// that names a namespace is for that one.
func (q *stored) declared() (catalog.Declaration, error) {
	text, err := io.ReadAll(q.Body)
	if err != nil {
		return catalog.Declaration{}, err
	}
	name := cmp.Or(q.query.Get("name"), "limits")
	select { // a large file takes a second, so one is read at a time
	case parsing <- struct{}{}:
	case <-q.Context().Done():
		return catalog.Declaration{}, q.Context().Err()
	}
	p, err := policy.Parse(name, text)
	<-parsing
	if err != nil {
		return catalog.Declaration{}, err
	}
	if p.Namespace != "" && p.Namespace != q.namespace {
		if q.caller.namespace != "" || q.Header.Get("Sluice-Namespace") != "" {
			return catalog.Declaration{}, badinput.Field("namespace", p.Namespace, "must be the one that the request is about, "+q.namespace)
		}
		q.namespace = p.Namespace
	}
	d := *p.Declared
	d.Name = name
	return d, nil
}

var parsing = make(chan struct{}, 1)

func answerPlan(w http.ResponseWriter, p *catalog.Plan, applied bool) error {
	a := client.Plan{Empty: p.Empty(), Text: p.String(), Steps: []client.PlanStep{}, Warnings: p.Warnings, Applied: applied}
	for _, s := range p.Steps {
		a.Steps = append(a.Steps, client.PlanStep{Doing: s.Doing, What: s.What, Before: s.Before, After: s.After})
	}
	return list(w, a, nil)
}

func planLimits(q *stored, w http.ResponseWriter) error {
	d, err := q.declared()
	if err != nil {
		return err
	}
	p, err := q.catalog.Plan(q.Context(), q.namespace, d)
	if err != nil {
		return q.refers(err)
	}
	return answerPlan(w, p, false)
}

func applyLimits(q *stored, w http.ResponseWriter) error {
	d, err := q.declared()
	if err != nil {
		return err
	}
	for try := 1; ; try++ { // somebody else may change something in between
		p, err := q.catalog.Plan(q.Context(), q.namespace, d)
		if err != nil {
			return q.refers(err)
		}
		err = q.edit().Apply(q.Context(), p)
		if err == nil {
			return answerPlan(w, p, true)
		}
		if !errors.Is(err, catalog.ErrConflict) || try == 5 {
			return err
		}
	}
}
