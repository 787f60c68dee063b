package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// Config configures a [Gate].
type Config struct {
	// Limiter decides takes.
	Limiter *sluice.Limiter

	// Policy is the policy now. It is asked for every request and must be
	// quick; when it answers another one, the gate follows.
	Policy func() *policy.Policy

	// Verify looks up API keys that the policy does not name. Nil knows no
	// others.
	Verify identity.Verifier

	// TierOf is the tier that is stored for an entity which came with that
	// tier in its credential. Nil means that the credential's counts.
	TierOf func(ctx context.Context, namespace, entity, tier string) (string, error)

	// Stored adds the demands of a set to dst where limits are stored outside
	// the policy. Nil means that the policy's numbers stand.
	Stored Stored

	// Guesses limits how many invalid credentials an address may send. The
	// zero limit means 20/minute.
	Guesses sluice.Limit

	// Audit gets refusals that the policy wants written down. Nil writes
	// none.
	Audit *Audit

	// Abuse watches for callers who go on and on, as the policy says. Nil
	// watches for none.
	Abuse *abuse.Guard

	// Log gets what goes wrong. Nil means slog.Default.
	Log *slog.Logger

	// verifyIn is Verify for the keys of one namespace; see UseCatalog.
	verifyIn func(namespace string) identity.Verifier
}

// Stored adds to dst what entity has to take in a set: the set's own demands
// ([policy.Set.Append]) or those of limits stored for the entity
// ([policy.Set.AppendLimit]), and those of its parents. An error means that
// the limits are not known, and the request is answered 503.
type Stored func(ctx context.Context, dst []sluice.Demand, set *policy.Set, id *identity.Identity, entity, tier string) ([]sluice.Demand, error)

// Gate decides requests by a policy. It is safe for concurrent use.
type Gate struct {
	config Config
	view   atomic.Pointer[view]
	failed atomic.Pointer[failure]
	stop   context.CancelFunc
	ctx    context.Context
	moving atomic.Bool
}

// view is a policy together with what identifies its callers. A request sees
// one or the other, never half of each.
type view struct {
	policy     *policy.Policy
	identifier *identity.Identifier
	stop       context.CancelFunc // ends the identifier's own work
}

type failure struct {
	policy *policy.Policy
	err    error
	at     time.Time
}

// retryPolicy is how often it is tried to use a policy whose keys could not be
// read: they may come later than the policy.
const retryPolicy = 10 * time.Second

// NewGate is a gate as config says. Close ends what it runs.
func NewGate(config Config) (*Gate, error) {
	switch {
	case config.Limiter == nil:
		return nil, &sluice.FieldError{Field: "gate.limiter", Reason: "must be set"}
	case config.Policy == nil || config.Policy() == nil:
		return nil, &sluice.FieldError{Field: "gate.policy", Reason: "must be set"}
	}
	if config.Guesses == (sluice.Limit{}) {
		config.Guesses = sluice.Per(20, time.Minute)
	}
	if err := config.Guesses.Validate(); err != nil {
		return nil, fmt.Errorf("gate.guesses: %w", err)
	}
	if config.Guesses.Algorithm == sluice.Concurrency {
		return nil, &sluice.FieldError{Field: "gate.guesses", Value: config.Guesses, Reason: "must be a number in a time: nothing is in flight after a guess"}
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Gate{config: config, ctx: ctx, stop: stop}
	v, err := g.see(config.Policy())
	if err != nil {
		stop()
		return nil, err
	}
	g.view.Store(v)
	return g, nil
}

// Close ends what the gate runs beside requests. The limiter, the audit and
// the guard stay the caller's to close.
func (g *Gate) Close() error {
	g.stop()
	return nil
}

// Problem is why the newest policy is not in use, or nil if it is.
func (g *Gate) Problem() error {
	p := g.config.Policy()
	if f := g.failed.Load(); f != nil && f.policy == p && g.view.Load().policy != p {
		return f.err
	}
	return nil
}

// see makes a view of a policy.
func (g *Gate) see(p *policy.Policy) (*view, error) {
	ctx, stop := context.WithCancel(g.ctx)
	options := []identity.Option{identity.WithLog(g.config.Log)}
	verify := g.config.Verify
	if verify == nil && g.config.verifyIn != nil {
		verify = g.config.verifyIn(p.Namespace)
	}
	if verify != nil {
		options = append(options, identity.WithVerifier(verify))
	}
	i, err := identity.New(ctx, p.Identity, options...)
	if err != nil {
		stop()
		return nil, fmt.Errorf("identity: %w", err)
	}
	return &view{policy: p, identifier: i, stop: stop}, nil
}

// current is the view to decide by. A new policy that identifies callers as
// before is followed at once; else as soon as its keys are read, and if they
// cannot be, the old policy stays.
func (g *Gate) current() *view {
	v, p := g.view.Load(), g.config.Policy()
	if v.policy == p {
		return v
	}
	if f := g.failed.Load(); f != nil && f.policy == p && time.Since(f.at) < retryPolicy || !g.moving.CompareAndSwap(false, true) {
		return v
	}
	if now := g.view.Load(); now != v { // somebody else was quicker
		g.moving.Store(false)
		return now
	}
	if v.policy.Namespace == p.Namespace && reflect.DeepEqual(v.policy.Identity, p.Identity) {
		defer g.moving.Store(false)
		next := &view{policy: p, identifier: v.identifier, stop: v.stop}
		g.view.Store(next)
		return next
	}
	go g.move(v, p)
	return v
}

func (g *Gate) move(old *view, p *policy.Policy) {
	defer g.moving.Store(false)
	next, err := g.see(p)
	if err != nil {
		if f := g.failed.Load(); f == nil || f.policy != p { // once
			g.config.Log.Error("the new policy is not used", "revision", p.Revision, "error", err)
		}
		g.failed.Store(&failure{policy: p, err: err, at: time.Now()})
		return
	}
	g.view.Store(next)
	old.stop()
}

// Client is the caller's address as the policy finds it, and whether the
// connection is one of a trusted proxy.
func (g *Gate) Client(header http.Header, remote string) (client netip.Addr, trusted bool) {
	return g.view.Load().identifier.Client(header, remote)
}

// ClientHeader is the header in which trusted proxies tell the address.
func (g *Gate) ClientHeader() string { return g.view.Load().identifier.ClientHeader() }
