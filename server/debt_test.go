package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// family is a firm of 100/minute whose children may have 10/minute each, and the
// secret of a key of eve's.
func family(t *testing.T) (s *theater, eve string) {
	t.Helper()
	s = stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.CreateEntity(ctx, catalog.Entity{ID: "firm"}))(t)
	must(c.SetLimits(ctx, catalog.Scope{Entity: "firm"}, limits("rpm", "100/minute"), 0))(t)
	for _, id := range []string{"eve", "bob"} {
		must(c.CreateEntity(ctx, catalog.Entity{ID: id, Parent: "firm", Cascade: true}))(t)
		must(c.SetLimits(ctx, catalog.Scope{Entity: id}, limits("rpm", "10/minute"), 0))(t)
	}
	return s, must(c.CreateKey(ctx, catalog.Key{Entity: "eve", Scopes: []string{"sluice:take"}}, true))(t).Secret
}

// left is what an entity has left.
func (s *theater) left(t *testing.T, entity string) float64 {
	t.Helper()
	return float64(must(s.admin(t).Status(t.Context(), client.Subject{Entity: entity}))(t).Limits[0].Remaining.Thousandths()) / 1000
}

// A key that takes runs into debt once, by what a take can cost, and not before
// that is repaid again: its brother goes on.
func TestAKeyThatTakesCannotDeepenADebt(t *testing.T) {
	s, eve := family(t)
	adjust := func(cost int) reply {
		return s.raw(t, "POST", "/v1/adjust", fmt.Sprintf(`{"entity":"eve","cost":{"rpm":%d}}`, cost), bearer(eve))
	}
	for i, want := range []int{200, 200, 429, 429, 429} { // 4 left, then 6 owed
		if r := adjust(6 + 4*min(i, 1)); r.status != want {
			t.Fatalf("adjust %d: %d %s", i, r.status, r.body)
		} else if want == 429 && (r.json["code"] != "in_debt" || r.header.Get("Retry-After") != "37") { // 6 owed at 10/minute
			t.Errorf("%s, retry after %s", r.body, r.header.Get("Retry-After"))
		}
	}
	if eve, firm := s.left(t, "eve"), s.left(t, "firm"); eve != -6 || firm != 84 {
		t.Errorf("eve has %v and the firm %v", eve, firm)
	}
	if d := must(s.as(t, serviceToken).Take(t.Context(), client.Take{Entity: "bob"}))(t); !d.Allowed {
		t.Errorf("%+v", d)
	}
	s.now.Advance(37 * time.Second)
	if r := adjust(1); r.status != 200 {
		t.Errorf("repaid: %d %s", r.status, r.body)
	}
	// A parent in debt counts, too; whoever is trusted may deepen it.
	for range 2 {
		if r := s.raw(t, "POST", "/v1/adjust", `{"entity":"firm","cost":{"rpm":200}}`, bearer(serviceToken)); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	s.now.Advance(time.Minute)
	if r := adjust(1); r.status != 429 || r.json["code"] != "in_debt" {
		t.Errorf("the parent is in debt: %d %s", r.status, r.body)
	}
}

// Calls at the same moment do not overlook each other's debt.
func TestParallelChargesAreSeen(t *testing.T) {
	s, eve := family(t)
	lease := make([]*client.Lease, 10)
	for i := range lease {
		lease[i], _, _ = s.as(t, eve).Acquire(t.Context(), client.Take{Entity: "eve", Cost: sluice.Thousandths(1)})
	}
	var all sync.WaitGroup
	var passed sync.Map
	for i := range 40 {
		all.Go(func() {
			r := reply{}
			if i < len(lease) {
				r = s.raw(t, "PATCH", "/v1/leases/"+lease[i].ID, `{"costs":{"rpm":10}}`, bearer(eve))
			} else {
				r = s.raw(t, "POST", "/v1/adjust", `{"entity":"eve","cost":{"rpm":10}}`, bearer(eve))
			}
			switch r.status {
			case http.StatusOK:
				passed.Store(i, true)
			case http.StatusTooManyRequests:
			default:
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	n := 0
	passed.Range(func(_, _ any) bool { n++; return true })
	if left := s.left(t, "eve"); n != 1 || left < -10 {
		t.Errorf("%d passed, %v left", n, left)
	}
}

// The leases of a key that takes are settled above what they cost while there is
// no debt, and below it always.
func TestLeasesCannotDeepenADebt(t *testing.T) {
	s, eve := family(t)
	ctx := t.Context()
	acquire := func(cost int64) string {
		t.Helper()
		lease, d, err := s.as(t, eve).Acquire(ctx, client.Take{Entity: "eve", Cost: sluice.Tokens(cost)})
		if err != nil || lease == nil {
			t.Fatalf("%+v %v", d, err)
		}
		return "/v1/leases/" + lease.ID
	}
	settle := func(method, path string, cost, want int, left float64) {
		t.Helper()
		r := s.raw(t, method, path, fmt.Sprintf(`{"costs":{"rpm":%d}}`, cost), bearer(eve))
		if now := s.left(t, "eve"); r.status != want || now != left || s.left(t, "firm") != 90+left {
			t.Errorf("%s to %d: %d %s, eve has %v, the firm %v", method, cost, r.status, r.body, now, s.left(t, "firm"))
		}
	}
	// One that was lowered is a way to raise it again without passing what it first cost.
	lowered := acquire(8)
	settle("PATCH", lowered, 0, 200, 10)
	estimated, other, third := acquire(4), acquire(2), acquire(2)
	settle("PATCH", estimated, 9, 200, -3) // more than was thought
	settle("PATCH", other, 3, 429, -3)
	settle("POST", other+"/commit", 3, 429, -3)
	settle("PATCH", lowered, 8, 429, -3)
	settle("PATCH", lowered, 8, 429, -3) // nothing was changed
	settle("POST", third+"/commit", 1, 200, -2)
	settle("PATCH", estimated, 9, 200, -2) // repeated: nothing changes
	settle("PATCH", estimated, 3, 200, 4)
	settle("PATCH", other, 3, 200, 3)
	settle("POST", estimated+"/commit", 10, 200, -4)
	if r := s.raw(t, "POST", other+"/commit", `{}`, bearer(eve)); r.status != 200 {
		t.Errorf("without costs: %d %s", r.status, r.body)
	}
}
