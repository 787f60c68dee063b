package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// Config configures a [Gate].
type Config struct {
	// Limiter decides takes.
	Limiter *sluice.Limiter

	// Policy is the first policy to decide by; see [Gate.Use].
	Policy *policy.Policy

	// Resolver finds the limits of the policy's sets for a caller. Nil means a
	// [catalog.Declared]: the policy's own numbers. With a [catalog.Catalog],
	// what is stored there beats them.
	Resolver catalog.Resolver

	// Verify looks up API keys that the policy does not name; [Keys] are those
	// of a catalog. Nil knows no others.
	Verify identity.Verifier

	// Identify names who sends a request, and their tier, to [Gate.Wrap]: for
	// programs that know it already, by a session for example. An empty entity
	// leaves it to Verify and the policy, an empty tier to the resolver. Nil
	// names nobody.
	Identify func(*http.Request) (entity, tier string)

	// Refuse answers requests that do not pass [Gate.Wrap]. The header has
	// Retry-After and what the policy sends already; [Call.Problem] is what
	// there is to say, and [Call.Refuse] says it as if Refuse were nil. The
	// call must not be kept.
	Refuse func(http.ResponseWriter, *http.Request, *Call)

	// Guesses limits how many invalid credentials an address may send. The
	// zero limit means 20/minute.
	Guesses sluice.Limit

	// Audit receives the refusals that the policy wants logged. Nil logs
	// none.
	Audit *Audit

	// Abuse watches for callers that keep sending after they are refused, as
	// the policy says. Nil watches for none.
	Abuse *abuse.Guard

	// Logins counts credentials that are not valid. Nil counts none.
	Logins *abuse.Logins

	// Decided is called with every request that was decided, for metrics. It
	// must be quick, safe for concurrent use, and must not keep the call. Nil
	// calls nothing.
	Decided func(*Call)

	// Log receives errors. Nil means slog.Default.
	Log *slog.Logger
}

// Gate decides requests by a policy. It is safe for concurrent use.
type Gate struct {
	config   Config
	declared catalog.Declared
	view     atomic.Pointer[view]
	using    sync.Mutex // for one change of policy at a time
	stop     context.CancelFunc
	ctx      context.Context
}

// view is a policy together with what identifies its callers. A request sees
// one or the other, never half of each.
type view struct {
	policy     *policy.Policy
	identifier *identity.Identifier
	stop       context.CancelFunc // ends the identifier's own work
}

// identify finds out who sends a request.
func (v *view) identify(ctx context.Context, r *Request, id *identity.Identity) error {
	if r.Entity != "" {
		v.identifier.Named(r.Entity, r.Tier, r.Header, r.Remote, id)
		return nil
	}
	return v.identifier.Identify(ctx, r.Header, r.Remote, id)
}

// Open returns a gate for config. It reads the files and fetches the key
// set that the policy names, unless ctx ends before. Close ends what it runs.
func Open(ctx context.Context, config Config) (*Gate, error) {
	switch {
	case config.Limiter == nil:
		return nil, &sluice.FieldError{Field: "gate.limiter", Reason: "must be set"}
	case config.Policy == nil:
		return nil, &sluice.FieldError{Field: "gate.policy", Reason: "must be set"}
	}
	if config.Guesses == (sluice.Limit{}) {
		config.Guesses = sluice.Per(20, time.Minute)
	}
	if err := config.Guesses.Validate(); err != nil {
		return nil, fmt.Errorf("gate.guesses: %w", err)
	}
	if config.Guesses.Algorithm == sluice.Concurrency {
		return nil, &sluice.FieldError{Field: "gate.guesses", Value: config.Guesses, Reason: "must be a rate, not a concurrency limit"}
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	life, stop := context.WithCancel(context.Background())
	g := &Gate{config: config, ctx: life, stop: stop}
	if g.config.Resolver == nil {
		g.config.Resolver = &g.declared
	}
	opened := context.AfterFunc(ctx, stop)
	err := g.Use(config.Policy)
	if !opened() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return g, nil
}

// Close ends what the gate runs beside requests. The limiter, the audit and
// the guard stay the caller's to close.
func (g *Gate) Close() error {
	g.stop()
	return nil
}

// Policy returns the policy that the gate decides by.
func (g *Gate) Policy() *policy.Policy { return g.view.Load().policy }

// Use makes the gate decide by another policy, from the next request on. It
// reads the keys that the policy names first; if that fails, nothing changes.
// It is for [policy.WatchConfig.Prepare], which makes a gate follow a file.
func (g *Gate) Use(p *policy.Policy) error {
	g.using.Lock()
	defer g.using.Unlock()
	old := g.view.Load()
	if old != nil && old.policy.Namespace == p.Namespace && reflect.DeepEqual(old.policy.Identity, p.Identity) {
		g.view.Store(&view{policy: p, identifier: old.identifier, stop: old.stop})
		return nil
	}
	ctx, stop := context.WithCancel(g.ctx)
	options := []identity.Option{identity.WithLog(g.config.Log)}
	if g.config.Verify != nil {
		options = append(options, identity.WithVerifier(g.verifier(p.Namespace)))
	}
	i, err := identity.Open(ctx, p.Identity, options...)
	if err != nil {
		stop()
		return fmt.Errorf("identity: %w", err)
	}
	g.view.Store(&view{policy: p, identifier: i, stop: stop})
	if old != nil {
		old.stop()
	}
	return nil
}

// Client returns the caller's address as the policy finds it, and whether the
// connection is one of a trusted proxy.
func (g *Gate) Client(header http.Header, remote string) (client netip.Addr, trusted bool) {
	return g.view.Load().identifier.Client(header, remote)
}

// Address returns the entity of an address, by its network as the policy groups
// them; "" if it is none.
func (g *Gate) Address(address string) string { return g.view.Load().identifier.Group(address) }

// ClientHeader returns the header in which trusted proxies send the address.
func (g *Gate) ClientHeader() string { return g.view.Load().identifier.ClientHeader() }
