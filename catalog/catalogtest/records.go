package catalogtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func storeChecks() []Check {
	return []Check{
		{"records are kept as they were put", checkRecords},
		{"conditions hold or nothing changes", checkConditions},
		{"versions grow and never repeat", checkVersions},
		{"lists are in order, in pages, by each index", checkLists},
		{"any name that can be printed", checkNames},
		{"keys are found across namespaces", checkFind},
		{"when a key was used", checkMarkUsed},
		{"events are in order, in pages", checkEvents},
		{"a batch is refused with its events", checkEventsAtomic},
		{"a batch of the largest size", checkLargestBatch},
		{"concurrent editors lose nothing", checkConcurrentBatches},
		{"purging events and records", checkPurge},
	}
}

func checkRecords(t *testing.T, open Open) {
	s := newStage(t, open)
	r := s.record("alice")
	r.Under, r.Tier, r.Source = "acme", "pro", "limits.yaml"
	r.Data = []byte(`{"name":"Alice","metadata":{"n":9007199254740993,"s":"ä\"x"}}`)
	if _, err := s.store.Get(s.ctx, r.RecordKey); !errors.Is(err, catalog.ErrNotFound) {
		t.Fatalf("before: got error %v, want not found", err)
	}
	version := s.put(r)
	got := s.get(r.RecordKey)
	if got.RecordKey != r.RecordKey || got.Under != r.Under || got.Tier != r.Tier || got.Source != r.Source || got.Version != version || !got.Used.IsZero() {
		t.Errorf("got %+v at version %d, want %+v", got, version, r)
	}
	if !sameJSON(got.Data, r.Data) {
		t.Errorf("data: got %s, want %s", got.Data, r.Data)
	}
	// Another connection sees it, and another namespace does not.
	again := *s
	again.store = open(t)
	again.get(r.RecordKey)
	o := s.other()
	if _, err := o.store.Get(o.ctx, o.key(r.Kind, r.ID, r.Sub)); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("in another namespace: got error %v, want not found", err)
	}
	empty := catalog.Record{RecordKey: s.key(catalog.KindGuard, "tree", "")}
	s.put(empty)
	if got := s.get(empty.RecordKey); len(got.Data) != 0 {
		t.Errorf("data of a guard: got %q, want none", got.Data)
	}
	large := s.record("large")
	large.Data = []byte(`{"x":"` + strings.Repeat("ä", catalog.MaxData/2-5) + `"}`)
	s.put(large)
	if got := s.get(large.RecordKey); !sameJSON(got.Data, large.Data) {
		t.Error("the largest record is not given back as it was put")
	}
	s.change(&catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{{Op: catalog.Delete, Record: r, If: version}}})
	if _, err := s.store.Get(s.ctx, r.RecordKey); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("after: got error %v, want not found", err)
	}
}

func sameJSON(a, b []byte) bool {
	normal := func(data []byte) string {
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber() // large numbers stay what they are
		var v any
		if d.Decode(&v) != nil {
			return "not JSON: " + string(data)
		}
		out, err := json.Marshal(v)
		return fmt.Sprint(string(out), err)
	}
	return normal(a) == normal(b)
}

func checkConditions(t *testing.T, open Open) {
	s := newStage(t, open)
	there := s.put(s.record("there"))
	stale := there
	there = s.put(s.record("there"))
	for _, c := range []struct {
		op   catalog.Op
		id   string
		cond int64
		ok   bool
	}{
		{catalog.Put, "there", catalog.IfAbsent, false},
		{catalog.Put, "there", stale, false},
		{catalog.Put, "there", there + 1000, false},
		{catalog.Put, "new", there, false},
		{catalog.Put, "new", catalog.IfPresent, false},
		{catalog.Delete, "there", stale, false},
		{catalog.Delete, "there", catalog.IfAbsent, false},
		{catalog.Delete, "new", there, false},
		{catalog.Delete, "new", catalog.IfPresent, false},
		{catalog.Check, "there", stale, false},
		{catalog.Check, "there", catalog.IfAbsent, false},
		{catalog.Check, "new", catalog.IfPresent, false},
		{catalog.Check, "new", there, false},
		{catalog.Check, "there", there, true},
		{catalog.Check, "there", catalog.IfPresent, true},
		{catalog.Check, "there", catalog.IfAny, true},
		{catalog.Check, "new", catalog.IfAbsent, true},
		{catalog.Check, "new", catalog.IfAny, true},
		{catalog.Delete, "new", catalog.IfAny, true},
		{catalog.Delete, "new", catalog.IfAbsent, true},
	} {
		name := fmt.Sprintf("op %d of %s if %d", c.op, c.id, c.cond)
		witness := "witness " + name
		_, err := s.store.Change(s.ctx, &catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{
			{Op: catalog.Put, Record: s.record(witness), If: catalog.IfAbsent},
			{Op: c.op, Record: s.record(c.id), If: c.cond},
		}})
		_, missing := s.store.Get(s.ctx, s.record(witness).RecordKey)
		if c.ok {
			if err != nil || missing != nil {
				t.Errorf("%s: got error %v and %v", name, err, missing)
			}
			continue
		}
		var conflict *catalog.ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, catalog.ErrConflict) {
			t.Errorf("%s: got error %v, want a conflict", name, err)
			continue
		}
		want := int64(0)
		if c.id == "there" {
			want = there
		}
		if conflict.Index != 1 || conflict.Key != s.record(c.id).RecordKey || conflict.Version != want || conflict.If != c.cond {
			t.Errorf("%s: the conflict is %+v, want index 1 and version %d", name, *conflict, want)
		}
		if !errors.Is(missing, catalog.ErrNotFound) {
			t.Errorf("%s: the rest of the batch was applied", name)
		}
	}
	if got := s.get(s.record("there").RecordKey); got.Version != there {
		t.Errorf("version %d after refused batches, want %d", got.Version, there)
	}
}

func checkVersions(t *testing.T, open Open) {
	s := newStage(t, open)
	first := s.put(s.record("a"), s.record("b"))
	if first != 1 {
		t.Errorf("the first version is %d, want 1", first)
	}
	if a, b := s.get(s.record("a").RecordKey), s.get(s.record("b").RecordKey); a.Version != first || b.Version != first {
		t.Errorf("versions %d and %d, want %d", a.Version, b.Version, first)
	}
	second := s.put(s.record("a"))
	if second != 2 {
		t.Errorf("the second version is %d, want 2", second)
	}
	if b := s.get(s.record("b").RecordKey); b.Version != first {
		t.Errorf("the version of an untouched record is %d, want %d", b.Version, first)
	}
	s.change(&catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{{Op: catalog.Delete, Record: s.record("a"), If: second}}})
	if again := s.put(s.record("a")); again != 4 {
		t.Errorf("made anew it has version %d, want 4", again)
	}
	if got := s.other().put(s.other().record("x")); got != 1 {
		t.Errorf("another namespace begins with version %d, want 1", got)
	}
	// A root record counts with the namespace of its batch.
	root := catalog.Record{RecordKey: catalog.RecordKey{Kind: catalog.KindNamespace, ID: s.namespace}}
	if v := s.put(root); v != 5 || s.get(root.RecordKey).Version != 5 {
		t.Errorf("a root record has version %d of %d, want 5", s.get(root.RecordKey).Version, v)
	}
	// Purging all records does not make versions begin again.
	s.purge(catalog.Purge{Target: catalog.PurgeRecords})
	if v := s.put(s.record("a")); v != 6 {
		t.Errorf("after a purge the version is %d, want 6", v)
	}
	s.get(root.RecordKey) // root records are not purged
}

func checkLists(t *testing.T, open Open) {
	s := newStage(t, open)
	o := s.other()
	var all []string
	for i := range 10 {
		id := fmt.Sprintf("e%02d", i)
		r := s.record(id)
		if i%2 == 0 {
			r.Under = "even"
		}
		if i%3 == 0 {
			r.Tier = "third"
		}
		if i%4 == 0 {
			r.Source = "fourth"
		}
		s.put(r)
		r.Namespace = o.namespace
		r.ID = "foreign-" + id
		o.put(r)
		all = append(all, id)
	}
	for _, sub := range []string{"", "b", "a"} {
		for _, id := range []string{"x", "y"} {
			r := catalog.Record{RecordKey: s.key(catalog.KindEntityLimits, id, sub), Under: sub, Data: []byte(`{}`)}
			s.put(r)
		}
	}
	for _, size := range []int{1, 3, 10, 1000} {
		q := catalog.ListQuery{Kind: catalog.KindEntity, Max: size}
		wantIDs(t, "all", s.list(q), all...)
		by := q
		by.Under = "even"
		wantIDs(t, "by under", s.list(by), "e00", "e02", "e04", "e06", "e08")
		by = q
		by.Tier = "third"
		wantIDs(t, "by tier", s.list(by), "e00", "e03", "e06", "e09")
		by = q
		by.Source = "fourth"
		wantIDs(t, "by source", s.list(by), "e00", "e04", "e08")
		by.Source = "none"
		wantIDs(t, "by a source that is not there", s.list(by))
		q.Kind = catalog.KindEntityLimits
		wantIDs(t, "with a second part", s.list(q), "x", "x/a", "x/b", "y", "y/a", "y/b")
		q.ID = "x"
		wantIDs(t, "by id", s.list(q), "x", "x/a", "x/b")
		q.ID, q.Under = "", "a"
		wantIDs(t, "limits by under", s.list(q), "x/a", "y/a")
	}
	// Rows that come and go between pages neither repeat nor hide others.
	q := catalog.ListQuery{Namespace: s.namespace, Kind: catalog.KindEntity, Max: 4}
	page, err := s.store.List(s.ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	s.change(&catalog.Batch{Namespace: s.namespace, Mutations: []catalog.Mutation{
		{Op: catalog.Delete, Record: s.record("e03"), If: catalog.IfAny}, // where the cursor is
		{Op: catalog.Put, Record: s.record("e00a"), If: catalog.IfAny},   // before it
		{Op: catalog.Put, Record: s.record("e05a"), If: catalog.IfAny},   // after it
	}})
	q.Cursor = page.Next
	wantIDs(t, "the next page", s.list(q), "e04", "e05", "e05a", "e06", "e07", "e08", "e09")
	// A moved record leaves its old place in the index.
	moved := s.record("e02")
	moved.Under = "odd"
	s.put(moved)
	wantIDs(t, "after a move", s.list(catalog.ListQuery{Kind: catalog.KindEntity, Under: "even"}), "e00", "e04", "e06", "e08")
	q.Cursor = "not a cursor"
	if _, err := s.store.List(s.ctx, q); err == nil {
		t.Error("a cursor that is none was not refused")
	}
}

func checkNames(t *testing.T, open Open) {
	s := newStage(t, open)
	names := []string{ // in order of their bytes
		" ", "%", "'; DROP TABLE x; --", "/v1/**", "A", "B", "[2001:db8::1]:443", "_", "a", "a b", "a/b", "a@b.example",
		strings.Repeat("n", catalog.MaxName), "z", "ä", "日本", "🚰",
	}
	for _, name := range names {
		s.put(s.record(name))
	}
	wantIDs(t, "names", s.list(catalog.ListQuery{Kind: catalog.KindEntity}), names...)
	long := catalog.Record{RecordKey: s.key(catalog.KindOverride, names[12], strings.Repeat("s", 600)), Under: names[12], Data: []byte(`{}`)}
	s.put(long)
	s.get(long.RecordKey)
	if got := s.list(catalog.ListQuery{Kind: catalog.KindOverride, Under: names[12]}); len(got) != 1 {
		t.Errorf("%d records under a long name, want 1", len(got))
	}
}

func checkFind(t *testing.T, open Open) {
	s := newStage(t, open)
	id := "k-" + s.namespace
	if _, err := s.store.Find(s.ctx, catalog.KindKey, id); !errors.Is(err, catalog.ErrNotFound) {
		t.Fatalf("got error %v, want not found", err)
	}
	r := catalog.Record{RecordKey: s.key(catalog.KindKey, id, ""), Under: "alice", Data: []byte(`{"a":1}`)}
	version := s.put(r)
	got, err := s.store.Find(s.ctx, catalog.KindKey, id)
	if err != nil || got.RecordKey != r.RecordKey || got.Version != version || got.Under != "alice" || !sameJSON(got.Data, r.Data) {
		t.Errorf("got %+v, %v", got, err)
	}
	o := s.other()
	clash := r
	clash.Namespace = o.namespace
	_, err = o.store.Change(o.ctx, &catalog.Batch{Namespace: o.namespace, Mutations: []catalog.Mutation{{Record: clash, If: catalog.IfAbsent}}})
	if err == nil {
		t.Error("two keys with one id were stored in two namespaces")
	}
}

func checkMarkUsed(t *testing.T, open Open) {
	s := newStage(t, open)
	r := catalog.Record{RecordKey: s.key(catalog.KindKey, "k-"+s.namespace, ""), Data: []byte(`{}`)}
	version := s.put(r)
	mark := func(namespace string, at time.Time) {
		t.Helper()
		err := s.store.MarkUsed(s.ctx, []catalog.Use{{Namespace: namespace, ID: r.ID, At: at}, {Namespace: namespace, ID: "unknown", At: at}})
		if err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)
	mark(s.namespace, noon)
	mark(s.namespace, noon.Add(-time.Hour))
	mark(s.other().namespace, noon.Add(time.Hour))
	s.put(r)
	got := s.get(r.RecordKey)
	if !got.Used.Equal(noon) || got.Version != version+1 {
		t.Errorf("used %s at version %d, want %s at version %d", got.Used, got.Version, noon, version+1)
	}
}

func checkLargestBatch(t *testing.T, open Open) {
	s := newStage(t, open)
	n := min(s.store.MaxBatch(), 2000)
	if n < 50 {
		t.Fatalf("the largest batch has %d mutations and events, want at least 50", n)
	}
	b := catalog.Batch{Namespace: s.namespace}
	for i := range n / 2 {
		id := fmt.Sprintf("e%05d", i)
		b.Mutations = append(b.Mutations, catalog.Mutation{Record: s.record(id), If: catalog.IfAbsent})
		b.Events = append(b.Events, catalog.EventRecord{Namespace: s.namespace, Subject: id, ID: id, Data: []byte(`{}`)})
	}
	s.change(&b)
	if got := len(s.list(catalog.ListQuery{Kind: catalog.KindEntity, Max: 1000})); got != n/2 {
		t.Errorf("%d records, want %d", got, n/2)
	}
}

func (s *stage) purge(p catalog.Purge) (total int) {
	s.t.Helper()
	if p.Namespace == "" {
		p.Namespace = s.namespace
	}
	if p.Max == 0 {
		p.Max = 4
	}
	for {
		n, err := s.store.Purge(s.ctx, p)
		if err != nil {
			s.t.Fatal(err)
		}
		total += n
		if n < p.Max {
			return total
		}
	}
}
