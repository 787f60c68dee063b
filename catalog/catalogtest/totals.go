package catalogtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

func totalChecks() []Check {
	return []Check{
		{"totals: one row a series, with when it was last taken", checkTotals},
		{"totals: purged once nothing of a series is left", checkTotalsPurge},
		{"usage: booked in the hour of the take", checkLateSettlements},
		{"usage: never below nothing", checkNeverNegative},
		{"usage: a total outlives hours and days, and is pruned and erased", checkTotalRetention},
	}
}

func (s *stage) total(entity, resource string, amount, count int64, last time.Time) catalog.UsageRow {
	return catalog.UsageRow{
		Namespace: s.namespace, Entity: entity, Resource: resource, Limit: "rpm", Span: catalog.Total,
		Amount: amount, Count: count, Last: last,
	}
}

// totals reads the totals of the series of entities on api.
func (s *stage) totals(entities ...string) []string {
	s.t.Helper()
	var series []catalog.Series
	for _, e := range entities {
		series = append(series, catalog.Series{Entity: e, Resource: "api", Limit: "rpm"})
	}
	rows, err := s.store.Totals(s.ctx, s.namespace, series)
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range rows {
		if r.Namespace != s.namespace || r.Span != catalog.Total || !r.Start.IsZero() {
			s.t.Errorf("a total of %s is %+v", s.namespace, r)
		}
		last := "-"
		if !r.Last.IsZero() {
			last = r.Last.Sub(midnight).String()
		}
		found[r.Entity] = fmt.Sprintf("%s=%d*%d@%s", r.Entity, r.Amount, r.Count, last)
	}
	var all []string
	for _, e := range entities {
		if found[e] != "" {
			all = append(all, found[e])
		}
	}
	return all
}

func checkTotals(t *testing.T, open Open) {
	s := newStage(t, open)
	at := func(d time.Duration) time.Time { return midnight.Add(d) }
	s.add("n1", 1, s.total("alice", "api", 5, 2, at(time.Second+time.Microsecond)), s.total("alice", "web", 7, 1, at(0)), s.total("bob", "api", 1, 1, at(time.Hour)))
	s.add("n2", 1, s.total("alice", "api", 3, 1, at(time.Minute)), s.total("dave", "api", -4, 0, time.Time{}))
	s.add("n3", 1, s.total("alice", "api", 2, 1, at(time.Second)), s.row("alice", "api", "rpm", 0, 99))
	s.add("n3", 1, s.total("alice", "api", 2, 1, at(time.Hour))) // sent again
	s.other().add("n4", 1, s.other().total("carol", "api", 1, 1, at(0)))
	wantIDs(t, "totals", s.totals("alice", "bob", "carol", "dave"), "alice=10*4@1m0s", "bob=1*1@1h0m0s", "dave=-4*0@-")
	for _, size := range []int{1, 2, 1000} {
		q := catalog.UsageQuery{Entity: "alice", Span: catalog.Total, Max: size, From: midnight.AddDate(1, 0, 0), To: midnight.AddDate(2, 0, 0)}
		list := func(q catalog.UsageQuery, sum bool) (rows []string) {
			q.Namespace = s.namespace
			for {
				read := s.store.Usage
				if sum {
					read = s.store.SumUsage
				}
				page, err := read(s.ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Rows {
					if !r.Start.IsZero() {
						t.Errorf("a total starts at %s", r.Start)
					}
					rows = append(rows, fmt.Sprintf("%s/%s=%d*%d", r.Entity, r.Resource, r.Amount, r.Count))
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					return rows
				}
			}
		}
		for _, sum := range []bool{false, true} {
			wantIDs(t, "an entity's", list(q, sum), "alice/api=10*4", "alice/web=7*1")
			of := q
			of.Entity, of.Resource = "", "api"
			wantIDs(t, "a resource's", list(of, sum), "alice/api=10*4", "bob/api=1*1", "dave/api=-4*0")
		}
	}
	s.add("n1", 2, s.row("erin", "api", "rpm", 0, 5))
	hour := s.row("erin", "api", "rpm", 1, 5)
	hour.Last = at(90 * time.Minute)
	s.add("n1", 3, hour)
	page, err := s.store.SumUsage(s.ctx, catalog.UsageQuery{Namespace: s.namespace, Entity: "erin", Span: catalog.Hourly, From: midnight, To: at(24 * time.Hour), Max: 10})
	if err != nil || len(page.Rows) != 1 || !page.Rows[0].Last.Equal(hour.Last) {
		t.Errorf("a sum is %+v, %v, want the latest of its rows", page.Rows, err)
	}
}

func checkTotalsPurge(t *testing.T, open Open) {
	s := newStage(t, open)
	day := s.row("carol", "api", "rpm", 0, 1)
	day.Span = catalog.Daily
	s.add("n", 1, s.total("alice", "api", 1, 1, midnight), s.total("bob", "api", 1, 1, midnight.Add(48*time.Hour)),
		s.total("carol", "api", 1, 1, time.Time{}), day, s.total("dave", "api", 1, 1, time.Time{}))
	purge := catalog.Purge{Target: catalog.PurgeUsage, Span: catalog.Total, Before: midnight.Add(24 * time.Hour)}
	if n := s.purge(purge); n != 2 {
		t.Errorf("%d totals purged, want alice's and dave's", n)
	}
	wantIDs(t, "left", s.totals("alice", "bob", "carol", "dave"), "bob=1*1@48h0m0s", "carol=1*1@-")
	if n := s.purge(catalog.Purge{Target: catalog.PurgeUsage, Entity: "carol"}); n != 2 {
		t.Errorf("%d rows of carol purged, want a day and a total", n)
	}
	wantIDs(t, "left", s.totals("bob", "carol"), "bob=1*1@48h0m0s")
}

// ledger is a recorder that writes when it is told to.
func (d *desk) ledger() *catalog.Recorder {
	d.t.Helper()
	r, err := catalog.NewRecorder(catalog.RecorderConfig{Store: d.store, Every: time.Minute, Clock: d.clock.Now})
	d.no(err)
	d.t.Cleanup(func() { d.no(r.Close()) })
	return r
}

func (d *desk) book(r *catalog.Recorder, amount int64, taken time.Time, take bool) {
	r.Consumed(sluice.Key{Namespace: d.namespace, Entity: "alice", Resource: "chat", Limit: "tpm"},
		sluice.Per(1, time.Second), sluice.Consumption{Amount: sluice.Thousandths(amount), Taken: taken, Take: take})
}

// booked is alice's usage, as the rows of a span.
func (d *desk) booked(span catalog.Span) (rows []string) {
	d.t.Helper()
	page, err := d.c.Usage(d.ctx, d.namespace, catalog.UsedQuery{Entity: "alice", Span: span, From: midnight.AddDate(0, 0, -7), To: midnight.AddDate(0, 0, 7)})
	d.no(err)
	for _, u := range page.Used {
		start := "ever"
		if !u.Start.IsZero() {
			start = u.Start.Format("02 15h")
		}
		rows = append(rows, fmt.Sprintf("%s: %s in %d", start, u.Amount, u.Count))
	}
	return rows
}

// checkLateSettlements settles leases hours after they were taken, on another
// node.
func checkLateSettlements(t *testing.T, open Open) {
	d := newDesk(t, open)
	one, two := d.ledger(), d.ledger()
	before, after := midnight.Add(-10*time.Minute), midnight.Add(70*time.Minute)
	for range 20 {
		d.book(one, 4000*sluice.Token, before, true)
		d.book(two, -3300*sluice.Token, before, false) // the estimate was too high
	}
	d.book(one, sluice.Token, after, true)
	d.no(one.Flush(d.ctx))
	d.no(two.Flush(d.ctx))
	wantIDs(t, "hours", d.booked(catalog.Hourly), "28 23h: 14000 in 20", "01 01h: 1 in 1")
	wantIDs(t, "days", d.booked(catalog.Daily), "28 00h: 14000 in 20", "01 00h: 1 in 1")
	wantIDs(t, "totals", d.booked(catalog.Total), "ever: 14001 in 21")
	alice := catalog.Series{Entity: "alice", Resource: "chat", Limit: "tpm"}
	totals, err := d.c.Totals(d.ctx, d.namespace, []catalog.Series{alice, {Entity: "bob"}})
	d.no(err)
	if u := totals[alice]; len(totals) != 1 || u.Amount.Thousandths() != 14001*sluice.Token || u.Count != 21 || !u.Last.Equal(after) {
		t.Errorf("totals are %+v", totals)
	}
}

// checkNeverNegative writes a settlement before its take.
func checkNeverNegative(t *testing.T, open Open) {
	d := newDesk(t, open)
	one, two := d.ledger(), d.ledger()
	d.book(one, 1000*sluice.Token, midnight, true)
	d.book(two, -388*sluice.Token, midnight, false)
	d.no(two.Flush(d.ctx))
	for _, span := range []catalog.Span{catalog.Hourly, catalog.Daily, catalog.Total} {
		if got := d.booked(span); len(got) != 1 || !strings.HasSuffix(got[0], ": 0 in 0") {
			t.Errorf("by %s before the take is written: %q, want nothing", span, got)
		}
	}
	d.no(one.Flush(d.ctx))
	wantIDs(t, "totals", d.booked(catalog.Total), "ever: 612 in 1")
	wantIDs(t, "hours", d.booked(catalog.Hourly), "01 00h: 612 in 1")
}

func checkTotalRetention(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.clock.Set(time.Until(midnight)) // the recorders' time
	r := d.ledger()
	d.book(r, sluice.Token, midnight, true)
	d.no(r.Flush(d.ctx))
	d.clock.Set(time.Until(midnight.AddDate(0, 2, 0)))
	d.no(r.Prune(d.ctx))
	wantIDs(t, "hours after two months", d.booked(catalog.Hourly))
	wantIDs(t, "the total after two months", d.booked(catalog.Total), "ever: 1 in 1")
	d.clock.Set(time.Until(midnight.AddDate(2, 0, 1)))
	d.book(r, sluice.Token, midnight.AddDate(2, 0, 1), true)
	d.no(r.Flush(d.ctx))
	d.no(r.Prune(d.ctx))
	wantIDs(t, "days after two years", d.booked(catalog.Daily))
	wantIDs(t, "a total in use after two years", d.booked(catalog.Total), "ever: 2 in 2")
	d.clock.Set(time.Until(midnight.AddDate(5, 0, 0)))
	d.no(r.Prune(d.ctx))
	wantIDs(t, "a total that nobody adds to any more", d.booked(catalog.Total))

	d.book(r, sluice.Token, midnight, true)
	d.no(r.Flush(d.ctx))
	removed, err := d.e.Erase(d.ctx, "alice", catalog.RefuseChildren)
	d.no(err)
	if removed.Usage != 3 {
		t.Errorf("erasing removed %d rows of usage, want an hour, a day and a total", removed.Usage)
	}
	wantIDs(t, "the total of whoever was erased", d.booked(catalog.Total))
}
