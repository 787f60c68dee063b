package catalogtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

// Open is how the suite gets a store to check: a new one, or another
// connection to the same database. Two stores opened for one tb must share
// their database. Whatever has to be cleaned up afterwards, closing the store
// too, is left to tb.Cleanup.
type Open func(tb testing.TB) catalog.Store

// Check is one thing that a store must get right. It uses namespaces of its
// own, so that checks may share a database.
type Check struct {
	Name string
	Run  func(t *testing.T, open Open)
}

// Run runs every check as a subtest.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open) })
	}
}

// Checks are all checks, in an order in which the simplest come first.
func Checks() []Check {
	return slices.Concat(
		storeChecks(),
		resolveChecks(),
		usageChecks(),
		totalChecks(),
		watchChecks(),
		entityChecks(),
		levelChecks(),
		keyChecks(),
		namespaceChecks(),
		planChecks(),
	)
}

// stage is a store under check, with a namespace that no other check uses.
type stage struct {
	t         *testing.T
	ctx       context.Context
	store     catalog.Store
	namespace string
}

func newStage(t *testing.T, open Open) *stage {
	return &stage{t: t, ctx: t.Context(), store: open(t), namespace: "check-" + rand.Text()}
}

// other is the same store with another namespace.
func (s *stage) other() *stage {
	o := *s
	o.namespace = "other-" + rand.Text()
	return &o
}

func (s *stage) key(kind catalog.Kind, id, sub string) catalog.RecordKey {
	return catalog.RecordKey{Namespace: s.namespace, Kind: kind, ID: id, Sub: sub}
}

// record is an entity whose data says so.
func (s *stage) record(id string) catalog.Record {
	return catalog.Record{RecordKey: s.key(catalog.KindEntity, id, ""), Data: fmt.Appendf(nil, `{"name":%q}`, id)}
}

// put stores records, whatever was there, and answers the version.
func (s *stage) put(records ...catalog.Record) int64 {
	s.t.Helper()
	b := catalog.Batch{Namespace: s.namespace}
	for _, r := range records {
		b.Mutations = append(b.Mutations, catalog.Mutation{Op: catalog.Put, Record: r, If: catalog.IfAny})
	}
	return s.change(&b)
}

func (s *stage) change(b *catalog.Batch) int64 {
	s.t.Helper()
	version, err := s.store.Change(s.ctx, b)
	if err != nil {
		s.t.Fatal(err)
	}
	return version
}

func (s *stage) get(k catalog.RecordKey) catalog.Record {
	s.t.Helper()
	r, err := s.store.Get(s.ctx, k)
	if err != nil {
		s.t.Fatalf("get %v: %v", k, err)
	}
	return r
}

// list reads all pages.
func (s *stage) list(q catalog.ListQuery) (ids []string) {
	s.t.Helper()
	q.Namespace = s.namespace
	if q.Max == 0 {
		q.Max = 3
	}
	for {
		page, err := s.store.List(s.ctx, q)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page.Records) > q.Max {
			s.t.Fatalf("a page has %d records, at most %d were asked for", len(page.Records), q.Max)
		}
		for _, r := range page.Records {
			if r.Namespace != s.namespace || r.Kind != q.Kind {
				s.t.Errorf("a list of %s in %s has %v", q.Kind, s.namespace, r.RecordKey)
			}
			id := r.ID
			if r.Sub != "" {
				id += "/" + r.Sub
			}
			ids = append(ids, id)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids
		}
	}
}

func wantIDs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
