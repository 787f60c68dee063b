package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/testclock"
)

// Open makes an empty store whose time is now. It ends with the test.
type Open func(tb testing.TB, now func() time.Time) idempotency.Store

// Config configures a run.
type Config struct {
	// Expires is set if records that have expired go by themselves, so that
	// there is nothing to sweep.
	Expires bool
}

// Run runs the suite.
func (config Config) Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"a claim is made once and finished once", (*fixture).lifecycle},
		{"another request with the same key is told apart in every state", (*fixture).mismatch},
		{"a crashed run is taken over when its claim has lapsed, not before", (*fixture).takeover},
		{"a claim that is extended does not lapse", (*fixture).extend},
		{"a claim that got no answer can be sent again", (*fixture).resend},
		{"what is released or forgotten never was", (*fixture).release},
		{"what failed can be claimed again, and is kept until then", (*fixture).failed},
		{"a key is free again when its record expires, not before", (*fixture).expiry},
		{"a clock that is set back keeps nobody out for longer than the life of a claim", (*fixture).clockBack},
		{"a clock that is set forward lets in the next, and fences the first", (*fixture).clockForward},
		{"scopes are apart, whatever their bytes", (*fixture).scopes},
		{"results of any bytes come back", (*fixture).results},
		{"figures add up, and recent replays come in order", (*fixture).figures},
		{"expired records are swept in batches", func(f *fixture) { f.sweep(config.Expires) }},
		{"all of a tenant is forgotten, and nothing of others", (*fixture).forgetTenant},
		{"all of a namespace is forgotten, and nothing of others", (*fixture).forgetNamespace},
		{"a run whose record was forgotten with all others stores nothing", (*fixture).forgetRunning},
		{"many records are forgotten in batches", (*fixture).forgetMany},
		{"forgetting while others write", (*fixture).forgetBusy},
		{"of many claims at once one is made", (*fixture).race},
		{"random steps agree with the reference", (*fixture).agree},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fixture{TB: t, clock: testclock.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
			f.store = open(t, f.clock.Now)
			test.run(f)
		})
	}
}

type fixture struct {
	testing.TB
	store idempotency.Store
	clock *testclock.Clock
}

const (
	life = 10 * time.Second
	ttl  = time.Hour
)

// claim is one for a key, with a token and a fingerprint of its own number.
func claim(key string, token, print byte) *idempotency.Claim {
	c := &idempotency.Claim{
		Scope: idempotency.Scope{Tenant: "acme", Method: "POST", Route: "/orders", Key: key},
		Life:  life, TTL: ttl, TakeOver: true,
	}
	c.Token[0], c.Fingerprint[0] = token, print
	return c
}

// wants claims and checks the verdict.
func (f *fixture) wants(c *idempotency.Claim, want idempotency.Verdict) idempotency.Answer {
	f.Helper()
	a, err := f.store.Claim(context.Background(), c)
	if err != nil {
		f.Fatal(err)
	}
	if a.Verdict != want {
		f.Fatalf("claim: %s, want %s", a.Verdict, want)
	}
	if a.Record.Scope != c.Scope {
		f.Errorf("scope %+v, want %+v", a.Record.Scope, c.Scope)
	}
	if !a.Now.Equal(f.clock.Now()) {
		f.Errorf("the answer's time is %s, want %s", a.Now, f.clock.Now())
	}
	if want != idempotency.Finished && a.Record.Result != nil {
		f.Errorf("a result comes with verdict %s", want)
	}
	return a
}

func (f *fixture) finish(c *idempotency.Claim, result string, want error) {
	f.Helper()
	f.finishAs(c, idempotency.Done, result, want)
}

func (f *fixture) finishAs(c *idempotency.Claim, state idempotency.State, result string, want error) {
	f.Helper()
	f.is("finish", f.store.Finish(context.Background(), &idempotency.Finish{
		ID: c.Scope.ID(), Token: c.Token, State: state, Result: []byte(result), TTL: ttl,
	}), want)
}

func (f *fixture) extends(c *idempotency.Claim, want error) {
	f.Helper()
	f.is("extend", f.store.Extend(context.Background(), c.Scope.ID(), c.Token, life), want)
}

func (f *fixture) releases(c *idempotency.Claim, want error) {
	f.Helper()
	f.is("release", f.store.Release(context.Background(), c.Scope.ID(), c.Token), want)
}

func (f *fixture) forgets(c *idempotency.Claim, want error) {
	f.Helper()
	f.is("forget", f.store.Forget(context.Background(), c.Scope.ID()), want)
}

func (f *fixture) looks(c *idempotency.Claim, want error) idempotency.Record {
	f.Helper()
	r, err := f.store.Lookup(context.Background(), c.Scope.ID())
	f.is("lookup", err, want)
	return r
}

func (f *fixture) is(what string, got, want error) {
	f.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		f.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		f.Errorf("%s is %s, want %s", what, g, w)
	}
}
