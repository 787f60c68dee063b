package catalogtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

// events reads all pages.
func (s *stage) events(q catalog.EventQuery) (ids []string) {
	s.t.Helper()
	q.Namespace = s.namespace
	if q.Max == 0 {
		q.Max = 3
	}
	for {
		page, err := s.store.Events(s.ctx, q)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page.Events) > q.Max {
			s.t.Fatalf("a page has %d events, at most %d were asked for", len(page.Events), q.Max)
		}
		for _, e := range page.Events {
			if e.Namespace != s.namespace || q.Subject != "" && e.Subject != q.Subject {
				s.t.Errorf("an event of %s %q among those of %s %q", e.Namespace, e.Subject, s.namespace, q.Subject)
			}
			if !sameJSON(e.Data, fmt.Appendf(nil, `{"id":%q}`, e.ID)) {
				s.t.Errorf("data of event %s: %s", e.ID, e.Data)
			}
			ids = append(ids, e.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids
		}
	}
}

func (s *stage) event(subject, id string) catalog.EventRecord {
	return catalog.EventRecord{Namespace: s.namespace, Subject: subject, ID: id, Data: fmt.Appendf(nil, `{"id":%q}`, id)}
}

func checkEvents(t *testing.T, open Open) {
	s := newStage(t, open)
	o := s.other()
	var all, odd []string
	for i := range 10 {
		id := fmt.Sprintf("%04d", i)
		subject := []string{"alice", "$SYSTEM"}[i%2]
		s.change(&catalog.Batch{Namespace: s.namespace, Events: []catalog.EventRecord{s.event(subject, id)}})
		o.change(&catalog.Batch{Namespace: o.namespace, Events: []catalog.EventRecord{o.event(subject, "o"+id)}})
		if all = append(all, id); i%2 == 1 {
			odd = append(odd, id)
		}
	}
	backwards := func(ids []string) []string {
		ids = slices.Clone(ids)
		slices.Reverse(ids)
		return ids
	}
	for _, size := range []int{1, 3, 5, 100} {
		q := catalog.EventQuery{Max: size}
		wantIDs(t, "all", s.events(q), all...)
		q.Newest = true
		wantIDs(t, "newest first", s.events(q), backwards(all)...)
		q.Subject = "$SYSTEM"
		wantIDs(t, "one subject, newest first", s.events(q), backwards(odd)...)
		q.Newest = false
		wantIDs(t, "one subject", s.events(q), odd...)
		q.From, q.To = "0003", "0007"
		wantIDs(t, "a time", s.events(q), "0003", "0005")
		q.Subject = ""
		wantIDs(t, "a time of all", s.events(q), "0003", "0004", "0005", "0006")
		q.Newest = true
		wantIDs(t, "a time of all, newest first", s.events(q), "0006", "0005", "0004", "0003")
		wantIDs(t, "of an unknown subject", s.events(catalog.EventQuery{Subject: "nobody"}))
	}
	root := catalog.EventRecord{Namespace: "", Subject: "$NAMESPACE:" + s.namespace, ID: s.namespace, Data: []byte(`{}`)}
	s.change(&catalog.Batch{Namespace: s.namespace, Events: []catalog.EventRecord{root}})
	page, err := s.store.Events(s.ctx, catalog.EventQuery{Subject: root.Subject, Max: 10})
	if err != nil || len(page.Events) != 1 {
		t.Errorf("got %d root events and error %v, want 1", len(page.Events), err)
	}
}

func checkEventsAtomic(t *testing.T, open Open) {
	s := newStage(t, open)
	_, err := s.store.Change(s.ctx, &catalog.Batch{
		Namespace: s.namespace,
		Mutations: []catalog.Mutation{{Record: s.record("a"), If: 7}},
		Events:    []catalog.EventRecord{s.event("a", "0001")},
	})
	if !errors.Is(err, catalog.ErrConflict) {
		t.Fatalf("got error %v, want a conflict", err)
	}
	wantIDs(t, "events of a refused batch", s.events(catalog.EventQuery{}))
	s.change(&catalog.Batch{Namespace: s.namespace, Events: []catalog.EventRecord{s.event("a", "0001")}})
	_, err = s.store.Change(s.ctx, &catalog.Batch{
		Namespace: s.namespace,
		Mutations: []catalog.Mutation{{Record: s.record("a"), If: catalog.IfAny}},
		Events:    []catalog.EventRecord{{Namespace: s.namespace, Subject: "b", ID: "0001", Data: []byte(`{"id":"other"}`)}},
	})
	if err == nil {
		t.Error("an event took the id of another one")
	}
	wantIDs(t, "events", s.events(catalog.EventQuery{}), "0001")
	wantIDs(t, "records", s.list(catalog.ListQuery{Kind: catalog.KindEntity}))
}

func checkPurge(t *testing.T, open Open) {
	s := newStage(t, open)
	o := s.other()
	for _, st := range []*stage{s, o} {
		for i := range 10 {
			id := fmt.Sprintf("%04d", i)
			st.change(&catalog.Batch{Namespace: st.namespace,
				Mutations: []catalog.Mutation{{Record: st.record(id), If: catalog.IfAbsent}},
				Events:    []catalog.EventRecord{st.event([]string{"alice", "bob"}[i%2], id)}})
		}
	}
	if n := s.purge(catalog.Purge{Target: catalog.PurgeEvents, BeforeID: "0004"}); n != 4 {
		t.Errorf("%d events before a time purged, want 4", n)
	}
	if n := s.purge(catalog.Purge{Target: catalog.PurgeEvents, Entity: "alice", BeforeID: "0006"}); n != 1 {
		t.Errorf("%d events of alice before a time purged, want 1", n)
	}
	wantIDs(t, "events left", s.events(catalog.EventQuery{}), "0005", "0006", "0007", "0008", "0009")
	if n := s.purge(catalog.Purge{Target: catalog.PurgeEvents, Entity: "alice"}); n != 2 {
		t.Errorf("%d events of alice purged, want 2", n)
	}
	wantIDs(t, "events left", s.events(catalog.EventQuery{}), "0005", "0007", "0009")
	if n := s.purge(catalog.Purge{Target: catalog.PurgeEvents}); n != 3 {
		t.Errorf("%d events purged, want 3", n)
	}
	if n := s.purge(catalog.Purge{Target: catalog.PurgeRecords}); n != 10 {
		t.Errorf("%d records purged, want 10", n)
	}
	wantIDs(t, "records left", s.list(catalog.ListQuery{Kind: catalog.KindEntity}))
	if events, records := o.events(catalog.EventQuery{}), o.list(catalog.ListQuery{Kind: catalog.KindEntity}); len(events) != 10 || len(records) != 10 {
		t.Errorf("%d events and %d records are left in another namespace, want 10 each", len(events), len(records))
	}
}
