package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/schedule"
)

var slotPlan = schedule.Plan{Name: "jobs", MaxPerWindow: 1_000_000, WindowSize: time.Hour}

// employTakes has clients take and lease, over connections that they keep and
// over new ones.
func (f *fleet) employTakes(p *process) {
	ctx := f.t.Context()
	f.employ("take", 3, func(int) func(int) error {
		c := f.api(p)
		return func(int) error { return f.took("take", 1)(c.Take(ctx, client.Take{Entity: "take"})) }
	})
	f.employ("take anew", 2, func(int) func(int) error {
		c := f.caller()
		c.Transport.(*caller).transport.DisableKeepAlives = true
		return func(int) error {
			r, err := http.NewRequestWithContext(ctx, "POST", p.url()+"/v1/take", strings.NewReader(`{"entity":"anew","cost":2}`))
			if err != nil {
				return err
			}
			response, text, err := fetch(c, r)
			if err == nil && (response.StatusCode != 200 || !strings.Contains(text, `"allowed":true`)) {
				err = fmt.Errorf("%d %s", response.StatusCode, text)
			}
			if err == nil {
				f.spend("anew", 2)
			}
			return err
		}
	})
	f.employ("batch", 2, func(int) func(int) error {
		c := f.api(p)
		return func(int) error {
			all, err := c.Takes(ctx, client.Take{Entity: "batch"}, client.Take{Entity: "batch", Cost: sluice.Tokens(3)})
			for i, o := range all {
				err = errors.Join(err, f.took("batch", 1+2*i)(o.Decision, o.Err))
			}
			return err
		}
	})
	f.employ("lease", 2, func(int) func(int) error {
		c := f.api(p)
		return func(int) error {
			lease, d, err := c.Acquire(ctx, client.Take{Entity: "lease", Cost: sluice.Tokens(5)})
			if err := f.took("lease", 5)(d, err); err != nil {
				return err
			}
			if _, err := lease.Adjust(ctx, sluice.LimitCost{Limit: "all", Cost: sluice.Tokens(7)}); err != nil {
				return err
			}
			f.spend("lease", 2)
			_, err = lease.Commit(ctx, sluice.LimitCost{Limit: "all", Cost: sluice.Tokens(4)})
			if err == nil || f.crashed.Load() { // it may be given back although a kill swallowed the answer
				f.spend("lease", -3)
			}
			return err
		}
	})
}

// employProtocols has clients wait, and ask as proxies do.
func (f *fleet) employProtocols(p *process) {
	ctx := f.t.Context()
	f.employ("wait", 3, func(int) func(int) error {
		c := f.api(p)
		take := client.Take{Entity: "wait", Limits: map[string]sluice.Limit{"pace": sluice.MustParse("100/s burst 1")}}
		return func(int) error {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := c.Wait(limited, take)
			var refused *sluice.RefusedError
			if errors.As(err, &refused) && f.stopped.Load() {
				return nil // told to come back, and it does
			}
			return err
		}
	})
	f.employ("forward-auth", 2, func(int) func(int) error {
		c := f.caller()
		return func(int) error {
			_, err := auth(ctx, c, p)
			if err == nil {
				f.spend("auth", 1)
			}
			return err
		}
	})
	f.employ("envoy over HTTP", 2, func(int) func(int) error {
		c := f.caller()
		return func(int) error {
			r, err := http.NewRequestWithContext(ctx, "POST", p.url()+"/json", strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"json"}]}]}`))
			if err != nil {
				return err
			}
			response, text, err := fetch(c, r)
			if err == nil && (response.StatusCode != 200 || !json.Valid([]byte(text)) || !strings.Contains(text, "limitRemaining")) {
				err = fmt.Errorf("%d %s", response.StatusCode, text)
			}
			if err == nil {
				f.spend("user json", 1)
			}
			return err
		}
	})
	for key, name := range map[string]string{"user": "envoy", "held": "envoy, held"} {
		f.employ(name, 2, func(int) func(int) error {
			c := pb.NewRateLimitServiceClient(dialGRPC(f.t, p))
			return func(int) error {
				response, err := c.ShouldRateLimit(ctx, envoyRequest(key, "grpc", 2))
				if err == nil && (response.GetOverallCode() != pb.RateLimitResponse_OK || len(response.GetStatuses()) != 1) {
					err = fmt.Errorf("got %v", response)
				}
				if err == nil {
					f.spend(key+" grpc", 2)
				}
				return f.gone(err)
			}
		})
	}
}

// employRecords has clients do what is kept in the database.
func (f *fleet) employRecords(p *process) {
	ctx := f.t.Context()
	f.employ("replay", 2, func(worker int) func(int) error {
		c := f.api(p)
		return func(i int) error {
			key := fmt.Sprintf("%s%d-%d", f.name, worker, i)
			if err := runOnce(ctx, c, key); err != nil {
				return err
			}
			f.acknowledged("replay", key)
			again, err := c.ClaimReplay(ctx, claimOf(key))
			if err == nil && (again.Verdict != idempotency.Finished || again.Response == nil || string(again.Response.Body) != key) {
				err = fmt.Errorf("replay of %s: %+v", key, again)
			}
			return err
		}
	})
	f.employ("slot", 2, func(worker int) func(int) error {
		c := f.api(p)
		return func(i int) error {
			event := fmt.Sprintf("%s%d-%d", f.name, worker, i)
			slot, err := c.AssignSlot(ctx, schedule.Request{Event: event, Plan: "jobs"})
			if err == nil && (slot.Event != event || slot.Existing) {
				err = fmt.Errorf("event %s got %+v", event, slot)
			}
			if err == nil {
				f.acknowledged("slot", event, slot.Scheduled.Format(time.RFC3339Nano))
			}
			return err
		}
	})
}

// employCatalog has clients change the catalog.
func (f *fleet) employCatalog(p *process) {
	ctx := f.t.Context()
	change := func(kind string, do func(c *client.Client, name string) (more []string, err error)) {
		f.employ(kind, 1, func(int) func(int) error {
			c := f.api(p)
			return func(i int) error {
				name := fmt.Sprintf("%s%s-%d", f.name, kind, i)
				more, err := do(c, name)
				if err == nil {
					f.acknowledged(append([]string{kind, name}, more...)...)
				}
				return err
			}
		})
	}
	change("entity", func(c *client.Client, name string) ([]string, error) {
		_, err := c.PutEntity(ctx, catalog.Entity{ID: name, Name: "called " + name})
		return nil, err
	})
	change("tier", func(c *client.Client, name string) ([]string, error) {
		_, err := c.PutTier(ctx, catalog.Tier{Name: name, Description: "for " + name})
		return nil, err
	})
	change("limits", func(c *client.Client, name string) ([]string, error) {
		_, err := c.SetLimits(ctx, catalog.Scope{Entity: name}, catalog.Limits{"own": {Limit: sluice.MustParse("77/day")}}, 0)
		return nil, err
	})
	change("override", func(c *client.Client, name string) ([]string, error) {
		_, err := c.SetOverride(ctx, catalog.Override{
			Entity: name, Limit: "all", Setting: catalog.Setting{Limit: sluice.MustParse("78/day")}, Until: time.Now().Add(time.Hour), Reason: "a test",
		})
		return nil, err
	})
	newKey := func(c *client.Client, name string) (client.NewKey, error) {
		if _, err := c.PutEntity(ctx, catalog.Entity{ID: name}); err != nil {
			return client.NewKey{}, err
		}
		return c.CreateKey(ctx, catalog.Key{Entity: name, Scopes: []string{"sluice:take"}}, false)
	}
	change("key", func(c *client.Client, name string) ([]string, error) {
		key, err := newKey(c, name)
		return []string{key.ID, key.Secret}, err
	})
	change("revoked", func(c *client.Client, name string) ([]string, error) {
		key, err := newKey(c, name)
		if err == nil {
			_, err = c.RevokeKey(ctx, key.ID)
		}
		return []string{key.ID, key.Secret}, err
	})
}

// took notes a take that must have been allowed.
func (f *fleet) took(bucket string, cost int) func(sluice.Decision, error) error {
	return func(d sluice.Decision, err error) error {
		if err == nil && !d.Allowed {
			err = fmt.Errorf("refused: %+v", d)
		}
		if err == nil {
			f.spend(bucket, cost)
		}
		return err
	}
}

// remembered checks that everything acknowledged is there, as it was, and no
// more slots than those and as many as were under way.
func (f *fleet) remembered(p *process, underWay int) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	c, slots := p.ask(t), 0
	for _, what := range f.known {
		name := what[1]
		var err error
		var found any
		ok := false
		switch what[0] {
		case "slot":
			slots++
			var slot schedule.Slot
			slot, err = c.AssignSlot(ctx, schedule.Request{Event: name, Plan: "jobs"})
			found, ok = slot, slot.Existing && (len(what) < 3 || slot.Scheduled.Format(time.RFC3339Nano) == what[2])
		case "replay":
			var again client.ReplayAnswer
			again, err = c.ClaimReplay(ctx, claimOf(name))
			found, ok = again, again.Verdict == idempotency.Finished && again.Response != nil && string(again.Response.Body) == name
		case "entity":
			var e catalog.Entity
			e, err = c.Entity(ctx, name)
			found, ok = e, e.Name == "called "+name
		case "tier":
			var tier catalog.Tier
			tier, err = c.Tier(ctx, name)
			found, ok = tier, tier.Description == "for "+name
		case "limits":
			var d sluice.Decision
			d, err = c.Peek(ctx, client.Take{Entity: name})
			found, ok = d, len(d.Results) == 1 && d.Demands[0].Limit == sluice.MustParse("77/day")
		case "override":
			var d sluice.Decision
			d, err = c.Peek(ctx, client.Take{Entity: name})
			found, ok = d, len(d.Results) == 1 && d.Demands[0].Limit == sluice.MustParse("78/day")
		case "key", "revoked":
			// Who brings a key that is not valid gets 401.
			var status int
			status, err = p.takeWith(ctx, what[3], name)
			found, ok = status, status == map[string]int{"key": 200, "revoked": 401}[what[0]]
		}
		if err != nil || !ok {
			t.Errorf("%v was acknowledged, and now it is %+v, %v", what[:2], found, err)
		}
	}
	if n := slotsIn(t, c); n < slots || n > slots+underWay {
		t.Errorf("%d slots were given, %d were under way, and there are %d", slots, underWay, n)
	}
}

// takeWith takes with an API key.
func (p *process) takeWith(ctx context.Context, key, entity string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", p.url()+"/v1/take", strings.NewReader(fmt.Sprintf(`{"entity":%q,"peek":true}`, entity)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, _, err := fetch(&http.Client{Transport: &p.transport}, r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, nil
}

func slotsIn(t *testing.T, c *client.Client) (n int) {
	t.Helper()
	load, err := c.SlotLoad(t.Context(), "jobs", time.Now().Add(-2*time.Hour), time.Hour, 48)
	if err != nil {
		t.Fatal(err)
	}
	for _, bar := range load.Bars {
		n += bar.Events
	}
	return n
}

func claimOf(key string) idempotency.Claim {
	return idempotency.Claim{
		Scope:       idempotency.Scope{Tenant: "default", Method: "POST", Route: "/orders", Key: key},
		Fingerprint: idempotency.Fingerprint{1}, Life: time.Minute, TTL: time.Hour,
	}
}

// runOnce does a write that must be new, and stores its response.
func runOnce(ctx context.Context, c *client.Client, key string) error {
	claim := claimOf(key)
	first, err := c.ClaimReplay(ctx, claim)
	if err != nil {
		return err
	}
	if first.Verdict != idempotency.Claimed {
		return fmt.Errorf("the first claim of %s: %+v", key, first)
	}
	return c.CompleteReplay(ctx, claim.Scope, first.Token, idempotency.Response{Status: 201, Body: []byte(key)}, time.Hour)
}
