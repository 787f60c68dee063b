package httplimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// PerIP returns a middleware that allows each client address so much, such as
// "100/minute" or "5 concurrent"; [sluice.Parse] has all forms. IPv6 clients
// are counted by their /64 network.
//
//	http.ListenAndServe(":8080", httplimit.PerIP("100/minute")(mux))
//	router.Use(httplimit.PerIP("100/minute")) // chi
//
// Behind a proxy every request comes from the proxy's address, unless the
// option [Behind] names it. Like all functions here without an error, PerIP
// panics if the limit or an option is not valid, as [regexp.MustCompile] does:
// call it when the program starts.
func PerIP(limit string, options ...Option) func(http.Handler) http.Handler {
	return MustOpen(policy.PerIP, limit, options...).Wrap
}

// PerKey returns a middleware that allows each API key so much. The key stands
// in X-API-Key, or in Authorization after "Bearer"; requests without one count
// for their address. Keys are stored as hashes.
//
// PerKey does not check keys, and a made-up one has a full bucket: put it
// behind what does, or use a [Gate] with [Config.Verify].
func PerKey(limit string, options ...Option) func(http.Handler) http.Handler {
	return MustOpen(policy.PerKey, limit, options...).Wrap
}

// Per returns a middleware that allows each caller so much, whom name names, by
// a session for example. Requests for which it returns "" count for their
// address. For tiers, use a [Gate] with [Config.Identify].
func Per(limit string, name func(*http.Request) string, options ...Option) func(http.Handler) http.Handler {
	if name == nil {
		panic("httplimit: Per: the function that names callers is nil")
	}
	named := func(s *simple) {
		s.config.Identify = func(r *http.Request) (entity, tier string) { return name(r), "" }
	}
	return MustOpen(policy.PerCaller, limit, append(options, named)...).Wrap
}

// Option changes what [PerIP], [PerKey], [Per] and [MustOpen] do.
type Option func(*simple)

// simple is a gate with a single limit.
type simple struct {
	name    string
	store   sluice.Store
	proxies []string
	config  Config
}

// On counts in a store, such as one on Redis that several processes share. The
// name keeps the buckets apart from others on the same store, and is what
// callers see of the limit. Without On each middleware counts for itself, in
// the memory of this process.
func On(store sluice.Store, name string) Option {
	if store == nil {
		panic("httplimit: On: the store is nil")
	}
	return func(s *simple) { s.store, s.name = store, name }
}

// Behind trusts proxies, given as addresses or networks such as "10.0.0.0/8",
// to say in X-Forwarded-For whom they forward for.
func Behind(proxies ...string) Option {
	return func(s *simple) { s.proxies = append(s.proxies, proxies...) }
}

// Refuse sets [Config.Refuse].
func Refuse(refuse func(http.ResponseWriter, *http.Request, *Call)) Option {
	return func(s *simple) { s.config.Refuse = refuse }
}

// MustOpen returns a gate with a single limit for each address
// ([policy.PerIP]), API key ([policy.PerKey]), caller ([policy.PerCaller]) or
// for all together ([policy.Everyone]). It is what [PerIP] and the others wrap,
// for use with other doors than net/http. It panics if anything is not valid.
func MustOpen(per policy.Kind, limit string, options ...Option) *Gate {
	s := simple{name: per.String()}
	for _, o := range options {
		o(&s)
	}
	if s.store == nil {
		store, err := memory.Open(memory.Config{})
		if err != nil {
			panic(err)
		}
		s.store = store
	}
	if per == policy.PerKey {
		per, s.config.Verify = policy.PerCaller, anyKey
	}
	s.config.Limiter, s.config.Policy = sluice.New(s.store), s.policy(per, limit)
	g, err := Open(context.Background(), s.config)
	if err != nil {
		panic(err)
	}
	return g
}

// policy writes the policy as a file would have it, so that it is checked and
// means the same.
func (s *simple) policy(per policy.Kind, limit string) *policy.Policy {
	type object map[string]any
	address := object{}
	if s.proxies != nil {
		address["trusted_proxies"] = s.proxies
	}
	text, err := json.Marshal(object{
		"version":  1,
		"limits":   object{s.name: object{"per": per.String(), "limit": limit}},
		"identity": object{"address": address},
	})
	if err != nil {
		panic(err)
	}
	p, err := policy.Parse("httplimit", text)
	if err != nil {
		panic(err)
	}
	return p
}

// anyKey takes every key for that of a caller of its own.
func anyKey(_ context.Context, key string) (identity.Verified, error) {
	sum := sha256.Sum256([]byte(key))
	name := "key:" + hex.EncodeToString(sum[:16])
	return identity.Verified{Key: name, Entity: name}, nil
}
