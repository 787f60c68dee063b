package idempotency_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func TestTenants(t *testing.T) {
	long := strings.Repeat("x", idempotency.MaxName-len("acme/"))
	for entity, want := range map[string]string{"alice": "acme/alice", "a/b": "acme/a/b", "": "acme/", long: "acme/" + long} {
		if got := idempotency.Tenant("acme", entity); got != want {
			t.Errorf("%.20s: %s", entity, got)
		}
	}
	longer, longest := idempotency.Tenant("acme", long+"y"), idempotency.Tenant("acme", long+"z")
	if longer == longest || !strings.HasPrefix(longer, "acme/sha256:") || len(longer) != len("acme/sha256:")+64 {
		t.Errorf("%s and %s", longer, longest)
	}
}

// Wherever ids are in order, the records of a tenant lie side by side, and so
// do those of a namespace.
func TestIDsOfATenantLieSideBySide(t *testing.T) {
	tenants := []string{"", "acme", "acme/", "acme/alice", "acme/bob", "acme0", "bolt", "bolt/alice", "/"}
	for _, whose := range []idempotency.Whose{{Tenant: ""}, {Tenant: "acme"}, {Tenant: "acme/alice"}, {Tenant: "acme", Below: true}, {Tenant: "bolt", Below: true}} {
		first, last := whose.IDs()
		for _, tenant := range tenants {
			for i := range 50 {
				s := idempotency.Scope{Tenant: tenant, Method: "POST", Route: "/", Key: fmt.Sprint(i)}
				id := s.ID()
				inside := bytes.Compare(id[:], first[:]) >= 0 && bytes.Compare(id[:], last[:]) <= 0
				if inside != whose.Has(tenant) {
					t.Errorf("%+v: is %q between its ids? %t", whose, tenant, inside)
				}
			}
		}
	}
}

func TestForgettingAll(t *testing.T) {
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := idempotency.New(idempotency.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	claims := func(tenant string, n int) {
		for i := range n {
			_, err := k.Claim(ctx, idempotency.Claim{
				Scope: idempotency.Scope{Tenant: tenant, Method: "POST", Route: "/orders", Key: fmt.Sprint(i)},
				Token: idempotency.NewToken(), Life: time.Minute, TTL: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	claims("acme/alice", 1200) // more than one batch
	claims("acme/bob", 3)
	claims("bolt", 5)
	if n, err := k.ForgetAll(ctx, idempotency.Whose{Tenant: "acme/alice"}); n != 1200 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if n, err := k.ForgetAll(ctx, idempotency.Whose{Tenant: "acme", Below: true}); n != 3 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if n, bytes := store.Size(); n != 5 || bytes > 5*2000 {
		t.Errorf("%d records of %d bytes are left", n, bytes)
	}
	// Nor is anything told of them later. For everyone they count.
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]int64{"acme/alice": 0, "acme/bob": 0, "bolt": 5} {
		if stats, err := store.Stats(ctx, idempotency.Query{Tenant: tenant}); stats.FirstRuns != want || err != nil {
			t.Errorf("%s has %d first runs, %v, want %d", tenant, stats.FirstRuns, err, want)
		}
	}
	if stats, err := store.Stats(ctx, idempotency.Query{Everyone: true}); stats.FirstRuns != 1208 || err != nil {
		t.Errorf("%d first runs, %v", stats.FirstRuns, err)
	}
	for _, bad := range []idempotency.Whose{
		{Tenant: strings.Repeat("x", 256)}, {Below: true}, {Tenant: "acme/alice", Below: true},
	} {
		if _, err := k.ForgetAll(ctx, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
