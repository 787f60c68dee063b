package policy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/excerpt"
)

const (
	maxPatterns = 50_000
	maxTiers    = 100
	maxSets     = 200 // of limits
	perSet      = catalog.MaxLimits
	perRoute    = sluice.MaxDemands / 2 // which leaves room for parents in a take
	maxListed   = 10_000

	idempotencyLeast = time.Second // the least that stored responses are kept for and writes may take
)

// compiler makes a policy of a file and reports what does not go together.
type compiler struct {
	*report
	file   *document
	policy *Policy
	sets   []*setRule
	limits map[string]bool // names of limits that some set has

	// applied are the limits of each set for each tier, or for none.
	tierNames []string
	applied   map[*setRule][][]catalog.Applied
}

// compile makes a policy of a file. It goes on after mistakes, to find all.
func compile(file *document, r *report) *Policy {
	or(&file.Namespace, catalog.DefaultNamespace)
	c := &compiler{report: r, file: file, policy: &Policy{Namespace: file.Namespace, upgrades: map[string]string{}}}
	c.tiers()
	c.setRules()
	c.endpoints()
	c.identity()
	c.sections()
	c.degraded()
	c.declared()
	c.idempotency()
	c.policy.Allow = c.callers("allow", file.Allow)
	c.policy.Deny = c.callers("deny", file.Deny)
	if len(r.list) == 0 { // the rest is about files that can be understood
		c.routes()
	}
	return c.policy
}

// named reports names that cannot be names.
func named[T any](c *compiler, section string, m *ordered[T]) {
	for name := range m.all() {
		if !isName(name) {
			c.addKey(section+"."+excerpt.Of(name), name, nil, "%q is not a name: expected 1 to 64 letters, digits, - and _", excerpt.Of(name))
		}
	}
}

func (c *compiler) tiers() {
	p, f := c.policy, c.file
	named(c, "tiers", &f.Tiers)
	if f.Tiers.len() > maxTiers {
		c.add("tiers", "has %d tiers, and at most %d are allowed", f.Tiers.len(), maxTiers)
	}
	for name, rule := range f.Tiers.all() {
		p.upgrades[name] = rule.Upgrade
		c.numbers("tiers."+name+".default", rule.Default)
		c.numbersOf("tiers."+name+".limits", &rule.Limits)
	}
	switch {
	case f.DefaultTier != "":
		c.tier("default_tier", f.DefaultTier)
	case f.Tiers.len() > 1:
		c.add("tiers", "has several tiers, and default_tier does not say which of them is for callers who have none")
	}
	if f.AnonymousTier != "" {
		c.tier("anonymous_tier", f.AnonymousTier)
	}
	if c.tierNames = f.Tiers.keys; len(c.tierNames) == 0 {
		c.tierNames = []string{""}
	}
}

// tier reports a tier that is not one.
func (c *compiler) tier(path, name string) {
	if c.file.Tiers.get(name) == nil {
		c.guess(path, name, c.file.Tiers.keys, "%q is not a tier; %s", excerpt.Of(name), among(c.file.Tiers.keys))
	}
}

// among lists what is there instead.
func among(names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	if len(names) > 12 {
		return fmt.Sprintf("there are %d others", len(names))
	}
	return "there are " + strings.Join(names, ", ")
}

// numbersOf checks numbers by the name of a set or a resource.
func (c *compiler) numbersOf(path string, m *ordered[Numbers]) {
	names := slices.Concat(c.file.Limits.keys, c.file.Resources.keys)
	for name, n := range m.all() {
		at := path + "." + excerpt.Of(name)
		if !slices.Contains(names, name) {
			c.addKey(at, name, names, "%q is not the name of a set under limits or of a resource; %s", excerpt.Of(name), among(names))
		}
		c.numbers(at, n)
	}
}

func (c *compiler) numbers(path string, n *Numbers) {
	if n != nil && len(n.Limits) > perSet {
		c.add(path, "has %d limits, and at most %d are allowed", len(n.Limits), perSet)
	}
}

func (c *compiler) setRules() {
	f := c.file
	named(c, "limits", &f.Limits)
	if f.Limits.len() > maxSets {
		c.add("limits", "has %d sets, and at most %d are allowed", f.Limits.len(), maxSets)
	}
	for name, rule := range f.Limits.all() {
		at := "limits." + excerpt.Of(name)
		rule.name = name
		c.per(at, rule)
		c.numbers(at+".limit", rule.Limit)
		c.patterns(at+".match", rule.Match)
		c.sets = append(c.sets, rule)
		if f.Resources.get(name) != nil {
			c.addKey("resources."+name, name, nil, "is the name of a set under limits, too; its numbers belong to %s.limit", at)
		}
	}
	c.policy.Declared = f.declaration()
	c.resolve()
}

// resolve finds the limits of every set for every tier.
func (c *compiler) resolve() {
	c.limits, c.applied = map[string]bool{}, map[*setRule][][]catalog.Applied{}
	var resolver catalog.Declared
	for _, rule := range c.sets {
		if at := "limits." + excerpt.Of(rule.name); !c.hasNumbers(rule) {
			c.addKey(at, rule.name, nil, "has no numbers: expected limit here, or tiers.NAME.limits.%s", rule.name)
		}
		for _, tier := range c.tierNames {
			r, err := resolver.Resolve(context.Background(), catalog.Subject{Resource: rule.name, Tier: tier, File: c.policy.Declared})
			if err != nil { // the name of the set is not one, which is reported
				continue
			}
			c.applied[rule] = append(c.applied[rule], r.Applied)
			for i := range r.Applied {
				if !r.Applied[i].Unlimited {
					c.limits[r.Applied[i].Limit] = true
				}
			}
		}
	}
}

// hasNumbers reports whether a set can ever apply.
func (c *compiler) hasNumbers(rule *setRule) bool {
	for _, t := range c.file.Tiers.all() {
		if t.Limits.get(rule.name) != nil || t.Default != nil && rule.kind.counts() <= catalog.Keys {
			return true
		}
	}
	return rule.Limit != nil || c.file.System.Limit != nil
}

// per finds out whose tokens a set counts.
func (c *compiler) per(path string, rule *setRule) {
	word, source, sourced := strings.Cut(rule.Per, ":")
	kinds := []string{"caller", "key", "user", "ip", "everyone", "header:", "claim:"}
	if sourced {
		word += ":"
	}
	i := slices.Index(kinds, word)
	if rule.Per == "" {
		i = int(PerCaller)
	}
	if i < 0 {
		c.guess(path+".per", word, kinds, "is %q, and one of caller, key, user, ip, everyone, header:NAME, claim:NAME was expected", excerpt.Of(rule.Per))
		return
	}
	rule.kind = Kind(i)
	switch rule.kind {
	case PerHeader:
		if !isHeader(source) {
			c.add(path+".per", "%q is not the name of a header", excerpt.Of(source))
		}
		rule.source = http.CanonicalHeaderKey(source)
	case PerClaim:
		if source == "" || len(source) > 100 {
			c.add(path+".per", "expected the name of a claim after claim:")
		}
		if c.file.Identity.JWT == nil {
			c.add(path+".per", "counts by a claim, and identity.jwt does not say which tokens are accepted")
		}
		rule.source = source
	default:
		if rule.Missing != "" {
			c.add(path+".missing", "is only for sets that count by a header or a claim")
		}
		return
	}
	rule.prefix = word + rule.source + ":"
}

// patterns counts patterns, which have been read already.
func (c *compiler) patterns(path string, list []Pattern) {
	if len(list) == 0 {
		if _, given := c.values[path]; given {
			c.add(path, "is empty, so it never applies: expected a pattern such as /api/**")
		}
	}
}

func (c *compiler) endpoints() {
	named(c, "endpoints", &c.file.Endpoints)
	for name, rule := range c.file.Endpoints.all() {
		at := "endpoints." + excerpt.Of(name)
		c.patterns(at+".match", rule.Match)
		if rule.Cost != nil {
			for _, l := range rule.Cost.named {
				c.limitName(at+".cost."+excerpt.Of(l.Limit), l.Limit)
			}
		}
		for limit := range rule.Settle.all() {
			c.limitName(at+".settle."+excerpt.Of(limit), limit)
		}
	}
}

// limitName reports a name of a limit that no set has.
func (c *compiler) limitName(path, name string) {
	if !c.limits[name] {
		names := slices.Sorted(maps.Keys(c.limits))
		c.addKey(path, name, names, "%q is not the name of a limit in any set; %s", excerpt.Of(name), among(names))
	}
}

// identity asks that package what is wrong with its part.
func (c *compiler) identity() {
	for _, e := range c.file.Identity.Check() {
		if value := fmt.Sprint(e.Value); value != "" {
			e.Reason = value + ": " + e.Reason
		}
		c.add("identity."+e.Field, "%s", e.Reason)
	}
	for i, k := range c.file.Identity.Keys {
		if k.Tier != "" {
			c.tier(fmt.Sprintf("identity.keys[%d].tier", i), k.Tier)
		}
	}
	c.policy.Identity = c.file.Identity.WithDefaults()
}

// sections fills in the defaults of what is passed on as it is.
func (c *compiler) sections() {
	p, f := c.policy, c.file
	p.Headers, p.Refusal, p.Abuse, p.Upstream = f.Headers, f.Refusal, f.Abuse, f.Upstream
	c.upstream(&p.Upstream)
	if p.Headers.Send == nil {
		p.Headers.Send = []string{"ietf"}
	}
	p.Headers.IETF = slices.Contains(p.Headers.Send, "ietf")
	p.Headers.Legacy = slices.Contains(p.Headers.Send, "legacy")
	p.Headers.XRateLimit = slices.Contains(p.Headers.Send, "x-ratelimit")
	or(&p.Refusal.Format, "problem+json")
	or(&p.Refusal.Code, "ERR_RATE_LIMIT")
	if f.Audit != nil {
		a := *f.Audit
		if _, given := c.values["audit.sample"]; !given {
			a.Sample = 1
		}
		if _, given := c.values["audit.keep"]; !given {
			a.Keep = 4
		}
		a.tiers = map[string]bool{}
		for i, t := range a.Tiers {
			c.tier(fmt.Sprintf("audit.tiers[%d]", i), t)
			a.tiers[t] = true
		}
		p.Audit = &a
	}
	if b := p.Abuse.Ban; b != nil {
		c.positive("abuse.ban.within", b.Within)
		c.positive("abuse.ban.for", b.For)
	}
	if e := p.Abuse.Emergency; e != nil {
		or(&e.Baseline, time.Hour)
		c.positive("abuse.emergency.for", e.For)
	}
}

func (c *compiler) positive(path string, d time.Duration) {
	if _, given := c.values[path]; given && d <= 0 && !c.reported(path) {
		c.add(path, "is %s, and a duration above 0 was expected", d)
	}
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *compiler) idempotency() {
	named(c, "idempotency", &c.file.Idempotency)
	for name, rule := range c.file.Idempotency.all() {
		at := "idempotency." + excerpt.Of(name)
		rule.Name = name
		c.patterns(at+".match", rule.Match)
		for field, d := range map[string]time.Duration{".ttl": rule.TTL, ".max_run": rule.MaxRun} {
			if d < idempotencyLeast && d != 0 && !c.reported(at+field) {
				c.add(at+field, "is %s, and %s at least was expected", d, idempotencyLeast)
			}
			c.positive(at+field, d)
		}
		or(&rule.TTL, 24*time.Hour)
		or(&rule.MaxRun, min(5*time.Minute, rule.TTL))
		if rule.MaxRun > rule.TTL && !c.reported(at+".max_run") && !c.reported(at+".ttl") {
			c.add(at+".max_run", "is %s, which is longer than the ttl, %s", rule.MaxRun, rule.TTL)
		}
		or(&rule.MaxBody, 1<<20)
		or(&rule.OnCrash, "outcome_unknown")
		or(&rule.OnUnavailable, "run")
		or(&rule.ReplayCost, "none")
		or(&rule.Identity, "optional")
		c.scope(at, rule)
		for i, name := range rule.Headers {
			if field := fmt.Sprintf("%s.headers[%d]", at, i); !c.reported(field) && !idempotency.Stores(name) {
				c.add(field, "%s belongs to one response, connection or caller, so it is never kept", excerpt.Of(name))
			}
		}
	}
}

// scope finds out whose keys a rule is about.
func (c *compiler) scope(at string, rule *Idempotency) {
	kinds := []string{"namespace", "entity", "key", "header:", "claim:"}
	word, source, sourced := strings.Cut(rule.Scope, ":")
	if sourced {
		word += ":"
	}
	switch {
	case rule.Scope == "":
		rule.Scope = "entity"
	case !slices.Contains(kinds, word):
		c.guess(at+".scope", word, kinds, "is %q, and one of namespace, entity, key, header:NAME, claim:NAME was expected", excerpt.Of(rule.Scope))
	case word == "header:" && !isHeader(source):
		c.add(at+".scope", "%q is not the name of a header", excerpt.Of(source))
	case word == "claim:" && (source == "" || len(source) > 100):
		c.add(at+".scope", "expected the name of a claim after claim:")
	case word == "claim:" && c.file.Identity.JWT == nil:
		c.add(at+".scope", "goes by a claim, and identity.jwt does not say which tokens are accepted")
	case sourced:
		rule.Scope, rule.Source = strings.TrimSuffix(word, ":"), source
	}
	if rule.Identity == "optional" && (rule.Scope == "entity" || rule.Scope == "namespace") {
		c.warn(at+".identity", "", nil, "callers without an API key or token may use keys; who is known by an address alone and gets another one can repeat a write unnoticed, unless identity is required")
	}
}

// callers makes a list of addresses, networks and entities.
func (c *compiler) callers(path string, entries []string) List {
	l := List{networks: map[netip.Prefix]struct{}{}, entities: map[string]struct{}{}}
	if len(entries) > maxListed {
		c.add(path, "has %d entries, and at most %d are allowed", len(entries), maxListed)
		return l
	}
	for i, s := range entries {
		if network, ok := parseNetwork(strings.TrimPrefix(s, "ip:")); ok {
			l.networks[network] = struct{}{}
			lengths := &l.bits4
			if network.Addr().Is6() {
				lengths = &l.bits6
			}
			if !slices.Contains(*lengths, network.Bits()) {
				*lengths = append(*lengths, network.Bits())
			}
			continue
		}
		kind, name, ok := strings.Cut(s, ":")
		if !ok || name == "" || kind == "ip" || strings.Contains(kind, ".") || len(s) > sluice.MaxKeyPart {
			c.add(fmt.Sprintf("%s[%d]", path, i), "%q is not a caller: expected an address, a network such as 10.0.0.0/8, or an entity such as key:ci or user:42", excerpt.Of(s))
			continue
		}
		l.entities[s] = struct{}{}
	}
	return l
}

// parseNetwork reads a network, or an address as a network of one.
func parseNetwork(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}
