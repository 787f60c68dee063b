package catalogtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func usageChecks() []Check {
	return []Check{
		{"usage is added once", checkUsageOnce},
		{"usage is added by many nodes at once", checkUsageNodes},
		{"usage lists and sums, in pages", checkUsageLists},
		{"purging usage", checkUsagePurge},
	}
}

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func (s *stage) row(entity, resource, limit string, hour int, amount int64) catalog.UsageRow {
	return catalog.UsageRow{
		Namespace: s.namespace, Entity: entity, Resource: resource, Limit: limit,
		Span: catalog.Hourly, Start: midnight.Add(time.Duration(hour) * time.Hour), Amount: amount, Count: 1,
	}
}

func (s *stage) add(node string, seq int64, rows ...catalog.UsageRow) {
	s.t.Helper()
	if err := s.store.AddUsage(s.ctx, &catalog.UsageBatch{Node: s.namespace + node, Seq: seq, Rows: rows}); err != nil {
		s.t.Fatal(err)
	}
}

// usage reads all pages of a list or of sums.
func (s *stage) usage(sum bool, q catalog.UsageQuery) (rows []string) {
	s.t.Helper()
	q.Namespace = s.namespace
	if q.Span == "" {
		q.Span = catalog.Hourly
	}
	if q.From.IsZero() {
		q.From, q.To = midnight, midnight.AddDate(0, 0, 10)
	}
	if q.Max == 0 {
		q.Max = 3
	}
	for {
		read := s.store.Usage
		if sum {
			read = s.store.SumUsage
		}
		page, err := read(s.ctx, q)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page.Rows) > q.Max {
			s.t.Fatalf("a page has %d rows, at most %d were asked for", len(page.Rows), q.Max)
		}
		for _, r := range page.Rows {
			if r.Namespace != s.namespace || r.Span != q.Span {
				s.t.Errorf("a list of %s in %s has %+v", q.Span, s.namespace, r)
			}
			at := ""
			if !sum {
				at = fmt.Sprintf("@%.0f", r.Start.Sub(midnight).Hours())
			} else if !r.Start.IsZero() {
				s.t.Errorf("a sum starts at %s", r.Start)
			}
			rows = append(rows, fmt.Sprintf("%s/%s/%s%s=%d*%d", r.Entity, r.Resource, r.Limit, at, r.Amount, r.Count))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return rows
		}
	}
}

func checkUsageOnce(t *testing.T, open Open) {
	s := newStage(t, open)
	alice := catalog.UsageQuery{Entity: "alice"}
	s.add("n1", 1, s.row("alice", "api", "rpm", 0, 5), s.row("alice", "api", "rpm", 1, 7))
	s.add("n1", 1, s.row("alice", "api", "rpm", 0, 5), s.row("alice", "api", "rpm", 1, 7)) // sent again
	wantIDs(t, "after a repetition", s.usage(false, alice), "alice/api/rpm@0=5*1", "alice/api/rpm@1=7*1")
	s.add("n1", 2, s.row("alice", "api", "rpm", 1, -9))
	s.add("n2", 1, s.row("alice", "api", "rpm", 1, 1))
	again := *s
	again.store = open(t)
	again.add("n1", 2, s.row("alice", "api", "rpm", 1, -9)) // after a restart of the database's client
	again.add("n1", 1, s.row("alice", "api", "rpm", 0, 5))
	wantIDs(t, "after more", again.usage(false, alice), "alice/api/rpm@0=5*1", "alice/api/rpm@1=-1*3")
}

func checkUsageNodes(t *testing.T, open Open) {
	s := newStage(t, open)
	const nodes, batches = 6, 10
	var wg sync.WaitGroup
	errs := make(chan error, nodes)
	for node := range nodes {
		wg.Go(func() {
			for seq := range int64(batches) {
				rows := []catalog.UsageRow{s.row("alice", "api", "rpm", 0, 1), s.row("bob", "api", "rpm", 0, 2)}
				if node%2 == 0 { // nodes name rows in any order
					slices.Reverse(rows)
				}
				for range 2 {
					if err := s.store.AddUsage(s.ctx, &catalog.UsageBatch{Node: fmt.Sprint(s.namespace, node), Seq: seq + 1, Rows: rows}); err != nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	wantIDs(t, "rows", s.usage(true, catalog.UsageQuery{}), "alice/api/rpm=60*60", "bob/api/rpm=120*60")
}

// fill adds two hours of use by three entities.
func (s *stage) fill() {
	var rows []catalog.UsageRow
	for _, entity := range []string{"carol", "alice", "bob"} {
		for _, resource := range []string{"web", "api"} {
			for hour := range 2 {
				rows = append(rows, s.row(entity, resource, "rpm", hour, int64(10+hour)))
			}
		}
		daily := s.row(entity, "api", "rpm", 0, 99)
		daily.Span = catalog.Daily
		rows = append(rows, daily)
	}
	rows = append(rows, s.row("alice", "api", "tpm", 1, 1000))
	s.add("n", 1, rows...)
}

func checkUsageLists(t *testing.T, open Open) {
	s := newStage(t, open)
	s.fill()
	s.other().fill()
	for _, size := range []int{1, 2, 5, 1000} {
		q := catalog.UsageQuery{Entity: "alice", Max: size}
		wantIDs(t, "an entity", s.usage(false, q),
			"alice/api/rpm@0=10*1", "alice/api/rpm@1=11*1", "alice/api/tpm@1=1000*1", "alice/web/rpm@0=10*1", "alice/web/rpm@1=11*1")
		wantIDs(t, "sums of an entity", s.usage(true, q), "alice/api/rpm=21*2", "alice/api/tpm=1000*1", "alice/web/rpm=21*2")
		q.Resource = "api"
		wantIDs(t, "an entity and a resource", s.usage(false, q), "alice/api/rpm@0=10*1", "alice/api/rpm@1=11*1", "alice/api/tpm@1=1000*1")
		wantIDs(t, "sums of an entity and a resource", s.usage(true, q), "alice/api/rpm=21*2", "alice/api/tpm=1000*1")
		q.Entity = ""
		wantIDs(t, "a resource", s.usage(false, q),
			"alice/api/rpm@0=10*1", "alice/api/rpm@1=11*1", "alice/api/tpm@1=1000*1",
			"bob/api/rpm@0=10*1", "bob/api/rpm@1=11*1", "carol/api/rpm@0=10*1", "carol/api/rpm@1=11*1")
		wantIDs(t, "sums of a resource", s.usage(true, q),
			"alice/api/rpm=21*2", "alice/api/tpm=1000*1", "bob/api/rpm=21*2", "carol/api/rpm=21*2")
		q.From, q.To = midnight.Add(time.Hour), midnight.Add(2*time.Hour)
		wantIDs(t, "an hour of a resource", s.usage(false, q),
			"alice/api/rpm@1=11*1", "alice/api/tpm@1=1000*1", "bob/api/rpm@1=11*1", "carol/api/rpm@1=11*1")
		q.To = midnight.Add(time.Hour)
		q.From = midnight
		wantIDs(t, "sums of an hour", s.usage(true, q), "alice/api/rpm=10*1", "bob/api/rpm=10*1", "carol/api/rpm=10*1")
		q.Resource = ""
		wantIDs(t, "sums of all", s.usage(true, q),
			"alice/api/rpm=10*1", "alice/web/rpm=10*1", "bob/api/rpm=10*1", "bob/web/rpm=10*1", "carol/api/rpm=10*1", "carol/web/rpm=10*1")
		q.Entity = "bob"
		wantIDs(t, "an hour of an entity", s.usage(false, q), "bob/api/rpm@0=10*1", "bob/web/rpm@0=10*1")
		wantIDs(t, "days", s.usage(false, catalog.UsageQuery{Resource: "api", Span: catalog.Daily, Max: size}),
			"alice/api/rpm@0=99*1", "bob/api/rpm@0=99*1", "carol/api/rpm@0=99*1")
	}
	wantIDs(t, "nobody", s.usage(false, catalog.UsageQuery{Entity: "nobody"}))
	wantIDs(t, "nothing", s.usage(true, catalog.UsageQuery{Resource: "nothing"}))
}

func checkUsagePurge(t *testing.T, open Open) {
	s := newStage(t, open)
	o := s.other()
	s.fill()
	o.fill()
	if n := s.purge(catalog.Purge{Target: catalog.PurgeUsage, Span: catalog.Hourly, Before: midnight.Add(time.Hour)}); n != 6 {
		t.Errorf("%d rows before a time purged, want 6", n)
	}
	wantIDs(t, "left of alice", s.usage(false, catalog.UsageQuery{Entity: "alice"}), "alice/api/rpm@1=11*1", "alice/api/tpm@1=1000*1", "alice/web/rpm@1=11*1")
	if n := s.purge(catalog.Purge{Target: catalog.PurgeUsage, Entity: "alice"}); n != 4 {
		t.Errorf("%d rows of alice purged, want 4 with the day", n)
	}
	wantIDs(t, "left", s.usage(true, catalog.UsageQuery{}), "bob/api/rpm=11*1", "bob/web/rpm=11*1", "carol/api/rpm=11*1", "carol/web/rpm=11*1")
	if n := s.purge(catalog.Purge{Target: catalog.PurgeUsage}); n != 6 {
		t.Errorf("%d rows purged, want 6", n)
	}
	if got := o.usage(true, catalog.UsageQuery{}); len(got) != 7 {
		t.Errorf("%d series are left in another namespace, want 7", len(got))
	}
	// Batches of a node that was forgotten could be added twice; those of one
	// that was active are not.
	if _, err := s.store.Purge(s.ctx, catalog.Purge{Target: catalog.PurgeNodes, Before: time.Now().Add(-time.Hour), Max: 10}); err != nil {
		t.Fatal(err)
	}
	s.fill()
	wantIDs(t, "after a repetition", s.usage(true, catalog.UsageQuery{}))
}
