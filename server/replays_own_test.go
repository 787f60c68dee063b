package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/idempotency"
)

// TestWhoeverMadeARecordFindsIt: a gateway files records under the entity that
// sent the request. The entity finds, settles and forgets its own, with a key
// that has no scope; who may read finds anybody's; an administrator settles them.
func TestWhoeverMadeARecordFindsIt(t *testing.T) {
	s := stage(t, nil)
	admin := s.admin(t)
	ctx := t.Context()
	for _, id := range []string{"alice", "mallory"} {
		must(admin.CreateEntity(ctx, catalog.Entity{ID: id}))(t)
	}
	as := func(entity string) *client.Client {
		return s.as(t, must(admin.CreateKey(ctx, catalog.Key{Entity: entity}, false))(t).Secret)
	}
	alice, mallory, reader := as("alice"), as("mallory"), s.as(t, readToken)
	mine := idempotency.Scope{Method: "POST", Route: "orders", Key: "k"}
	named := mine
	named.Tenant = idempotency.Tenant("default", "alice")
	crash := func() {
		t.Helper()
		claim := idempotency.Claim{Scope: named, Life: 100 * time.Millisecond}
		if got := must(s.as(t, serviceToken).ClaimReplay(ctx, claim))(t); got.Verdict != idempotency.Claimed {
			t.Fatalf("%+v", got)
		}
		s.replayTime.Advance(time.Second)
		if record, _, err := reader.LookupReplay(ctx, named); err != nil || !record.Crashed {
			t.Fatalf("%+v, %v", record, err)
		}
	}
	crash()
	if record, _, err := alice.LookupReplay(ctx, mine); err != nil || record.Scope != named {
		t.Errorf("alice finds %+v, %v", record, err)
	}
	if _, _, err := mallory.LookupReplay(ctx, mine); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("mallory's own: %v", err)
	}
	forbidden := func(who string, err error) {
		t.Helper()
		var e *client.Error
		if !errors.As(err, &e) || e.Status != 403 {
			t.Errorf("%s: %v", who, err)
		}
	}
	_, _, err := mallory.LookupReplay(ctx, named)
	forbidden("mallory looks", err)
	forbidden("mallory settles", mallory.SettleReplay(ctx, named, nil))
	forbidden("a reader settles", reader.SettleReplay(ctx, named, nil))
	forbidden("a reader forgets", reader.ForgetReplay(ctx, named))
	_, err = mallory.ReplayStats(ctx, idempotency.Query{Tenant: named.Tenant})
	forbidden("mallory counts", err)

	if err := alice.SettleReplay(ctx, mine, &idempotency.Response{Status: 201}); err != nil {
		t.Error(err)
	}
	if _, response, err := admin.LookupReplay(ctx, named); err != nil || response.Status != 201 {
		t.Errorf("%+v %v", response, err)
	}
	if err := alice.ForgetReplay(ctx, mine); err != nil {
		t.Error(err)
	}
	crash()
	if err := admin.SettleReplay(ctx, named, nil); err != nil {
		t.Error(err)
	}
	if _, _, err := alice.LookupReplay(ctx, mine); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("settled as never run: %v", err)
	}
	if _, err := alice.RecentReplays(ctx, idempotency.Query{}); err != nil {
		t.Error(err)
	}
	if _, err := alice.ReplayStats(ctx, idempotency.Query{}); err != nil {
		t.Error(err)
	}
}
