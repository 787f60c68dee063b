package policy

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// rule is one pattern of the file and what it is for: an endpoint, an
// exemption, a set or idempotency.
type rule struct {
	pattern     *Pattern
	path        string // where it is written
	name        string // of the endpoint
	endpoint    *endpointRule
	exempt      bool
	set         int // -1 if none
	idempotency *Idempotency
}

// router makes the routes of a policy.
type router struct {
	*compiler
	*builder
	rules   []rule
	methods []string
	always  []int // sets without patterns

	byRules map[string][]*Route
	known   map[routeKey]*Route
	tables  map[tableKey][]Set
	said    map[string]bool // mistakes that are not repeated for every route
}

// routeKey is what makes routes the same.
type routeKey struct {
	rule        int32 // that of the endpoint or exemption, or -1
	idempotency *Idempotency
	sets        string
	write       bool
}

// tableKey is what makes the sets of routes the same.
type tableKey struct {
	sets, cost  string
	unavailable Unavailable
	decided     bool // the endpoint says something about unavailable
	write       bool
	critical    bool
	shadow      bool
}

// routes compiles all patterns into the policy's matcher.
func (c *compiler) routes() {
	r := &router{
		compiler: c, builder: newBuilder(), byRules: map[string][]*Route{}, known: map[routeKey]*Route{},
		tables: map[tableKey][]Set{}, said: map[string]bool{},
	}
	r.collect()
	if len(r.rules) > maxPatterns {
		c.add("", "the file has %d patterns, and at most %d are allowed", len(r.rules), maxPatterns)
		return
	}
	m := &c.policy.matcher
	m.methods = map[string]int{}
	for i, name := range r.methods {
		m.methods[name] = i
	}
	if !r.build() {
		c.add("", "too many patterns overlap: expected fewer with ** in the middle, or with a wildcard before a name")
		return
	}
	for id := range r.states {
		r.states[id].routes = r.at(int32(id))
	}
	m.states = r.states
	m.exemptMethods = make([]bool, len(r.methods))
	for _, method := range c.file.Exempt.Methods {
		m.exemptMethods[m.methods[method]] = true
	}
	m.exempt = &Route{Exempt: true}
}

// collect lists all patterns and all methods that any of them names.
func (r *router) collect() {
	r.methods = knownMethods[:]
	for i, set := range r.sets {
		if len(set.Match) == 0 {
			r.always = append(r.always, i)
		}
		r.patterns("limits."+set.name+".match", set.Match, rule{set: i})
	}
	for name, e := range r.file.Endpoints.all() {
		r.patterns("endpoints."+name+".match", e.Match, rule{set: -1, endpoint: e, name: name})
	}
	r.patterns("exempt.match", r.file.Exempt.Match, rule{set: -1, exempt: true})
	for name, i := range r.file.Idempotency.all() {
		r.patterns("idempotency."+name+".match", i.Match, rule{set: -1, idempotency: i})
	}
	for i, method := range r.file.Exempt.Methods {
		r.method(fmt.Sprintf("exempt.methods[%d]", i), method)
	}
}

func (r *router) patterns(path string, list []Pattern, like rule) {
	for i := range list {
		like.pattern = &list[i]
		like.path = fmt.Sprintf("%s[%d]", path, i)
		r.builder.add(int32(len(r.rules)), like.pattern)
		r.rules = append(r.rules, like)
		r.method(like.path, like.pattern.method)
	}
}

// method adds a method that the file names. It may be one that nobody has
// registered.
func (r *router) method(path, name string) {
	if name == "" || slices.Contains(knownMethods[:], name) {
		return
	}
	if !slices.Contains(registered, name) {
		r.warn(path, name, slices.Concat(knownMethods[1:], registered), "HTTP has no method %s", name)
	}
	if !slices.Contains(r.methods, name) {
		r.methods = append(slices.Clip(r.methods), name)
	}
}

// registered are the methods that IANA lists beside knownMethods, and PURGE.
var registered = strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY
	MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH PURGE QUERY REBIND REPORT
	SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

// at is the routes, by method, of paths that end in a state.
func (r *router) at(state int32) []*Route {
	accepted := r.accepted(state)
	key := make([]byte, 0, 4*len(accepted))
	for _, id := range accepted {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	if routes, ok := r.byRules[string(key)]; ok {
		return routes
	}
	routes := make([]*Route, len(r.methods))
	for method := range routes {
		routes[method] = r.route(state, accepted, method)
	}
	r.byRules[string(key)] = routes
	return routes
}

// route is what the accepted patterns together say about a method.
func (r *router) route(state int32, accepted []int32, method int) *Route {
	k := routeKey{rule: -1, write: !reads(method)}
	replays := int32(-1)
	sets := slices.Clone(r.always)
	for _, id := range accepted {
		rule := &r.rules[id]
		if !r.covers(rule.pattern.method, method) {
			continue
		}
		switch {
		case rule.set >= 0:
			sets = append(sets, rule.set)
		case rule.idempotency != nil:
			replays = r.better(replays, id, state, method)
		default:
			k.rule = r.better(k.rule, id, state, method)
		}
	}
	if replays >= 0 {
		k.idempotency = r.rules[replays].idempotency
	}
	if k.rule >= 0 {
		if e := r.rules[k.rule].endpoint; e != nil && e.Access != "" {
			k.write = e.Access == "write"
		}
	}
	k.sets = r.setsOf(sets, k.write)
	if route, ok := r.known[k]; ok {
		return route
	}
	route := r.make(k)
	r.known[k] = route
	return route
}

// covers reports whether a pattern with a method, or with none, is about
// requests with another. What answers GET answers HEAD.
func (r *router) covers(pattern string, method int) bool {
	return pattern == "" || pattern == r.methods[method] || pattern == "GET" && method == headMethod
}

// better is the more specific of two rules, and a mistake if neither is.
func (r *router) better(have, id, state int32, method int) int32 {
	if have < 0 {
		return id
	}
	a, b := &r.rules[have], &r.rules[id]
	c := a.pattern.compare(b.pattern)
	if c == 0 && a.pattern.method != b.pattern.method { // GET and HEAD, for HEAD
		c = 1
		if b.pattern.method == r.methods[method] {
			c = -1
		}
	}
	if c == 0 && (a.endpoint != b.endpoint || a.exempt != b.exempt || a.idempotency != b.idempotency) {
		r.once(b.path, "%q is as specific as %q (%s, %s), and both match %s", b.pattern, a.pattern, a.path, r.where(a.path), r.example(state))
	}
	if c < 0 {
		return id
	}
	return have
}

// once reports a mistake that many routes have.
func (r *router) once(path, format string, args ...any) {
	key := path + fmt.Sprintf(format, args...)
	if len(args) > 2 {
		key = path + fmt.Sprint(args[:len(args)-1]...) // the last one is an example
	}
	if !r.said[key] {
		r.said[key] = true
		r.compiler.add(path, format, args...)
	}
}

// setsOf is which sets apply, as a key: a byte for each.
func (r *router) setsOf(sets []int, write bool) string {
	slices.Sort(sets)
	var key []byte
	for _, i := range slices.Compact(sets) {
		if a := r.sets[i].Access; a == "" || write == (a == "write") {
			key = append(key, byte(i))
		}
	}
	return string(key)
}

func (r *router) make(k routeKey) *Route {
	route := &Route{Write: k.write, Idempotency: k.idempotency, Cost: sluice.Tokens(1)}
	e := new(endpointRule)
	at := ""
	if k.rule >= 0 {
		rule := &r.rules[k.rule]
		route.Pattern = rule.pattern.text
		if rule.exempt {
			route.Exempt = true
			return route
		}
		e, route.Endpoint = rule.endpoint, rule.name
		at = "endpoints." + rule.name
	}
	route.Critical = e.Criticality == "critical"
	if e.Cost != nil {
		route.Cost = sluice.Thousandths(e.Cost.rule)
	}
	route.Scopes = e.Scopes
	for limit, header := range e.Settle.all() {
		route.Settle = append(route.Settle, Settle{limit, *header})
	}
	route.use(r.table(k, e))
	r.passable(at, route)
	return route
}

// use gives a route its sets.
func (r *Route) use(sets []Set) {
	r.Sets = sets
	for i := range sets {
		if sets[i].Group == 0 {
			r.Callers = sets[i].Resources
		}
	}
}

// table makes or finds the sets for an endpoint.
func (r *router) table(k routeKey, e *endpointRule) []Set {
	key := tableKey{
		sets: k.sets, write: k.write, cost: e.Cost.String(), critical: e.Criticality == "critical", shadow: e.Shadow,
	}
	if e.OnUnavailable != nil {
		key.unavailable, key.decided = *e.OnUnavailable, true
	}
	if sets, ok := r.tables[key]; ok {
		return sets
	}
	sets := make([]Set, 0, len(k.sets))
	for _, index := range []byte(k.sets) {
		rule := r.sets[index]
		sets = append(sets, Set{
			Name: rule.name, Kind: rule.kind, Source: rule.source, SkipMissing: rule.Missing == "skip",
			costs: e.Cost, prefix: rule.prefix,
			shadow:        rule.Shadow || e.Shadow,
			unannounced:   rule.unannounced(),
			critical:      rule.Criticality == "critical" || e.Criticality == "critical",
			onUnavailable: r.unavailable(rule.OnUnavailable, e.OnUnavailable, k.write),
		})
	}
	group(sets)
	r.tables[key] = sets
	return sets
}

// unavailable is the stricter of what the set and the endpoint say, or else
// what the file says.
func (r *router) unavailable(set, endpoint *Unavailable, write bool) sluice.OnUnavailable {
	switch {
	case set != nil && endpoint != nil:
		return stricter(set.of(write), endpoint.of(write))
	case set != nil:
		return set.of(write)
	case endpoint != nil:
		return endpoint.of(write)
	case r.file.OnUnavailable != nil:
		return r.file.OnUnavailable.of(write)
	}
	return sluice.Degrade
}

// stricter is the first that either is: deny, degrade, allow.
func stricter(a, b sluice.OnUnavailable) sluice.OnUnavailable {
	for _, o := range []sluice.OnUnavailable{sluice.Deny, sluice.Degrade} {
		if a == o || b == o {
			return o
		}
	}
	return sluice.Allow
}

// passable reports requests that are always refused because they cost more
// than a limit ever has, and requests with more limits than a take can have.
func (r *router) passable(at string, route *Route) {
	for i, tier := range r.tierNames {
		demands := 0
		for j := range route.Sets {
			s := &route.Sets[j]
			for _, a := range r.applied[r.file.Limits.get(s.Name)][i] {
				if a.Unlimited {
					continue
				}
				demands++
				cost := s.costs.of(a.Limit, a.Setting.Limit.Algorithm)
				if room := a.Setting.Limit.Capacity().Thousandths(); cost > room && !s.shadow {
					r.never(at, &a, cost, tier, room)
				}
			}
		}
		if demands > perRoute {
			r.once(cmp.Or(at, "limits"), "%d limits apply to one request, and at most %d are allowed", demands, perRoute)
		}
	}
}

func (r *router) never(at string, a *catalog.Applied, cost int64, tier string, room int64) {
	who := ""
	if tier != "" && a.Level >= sluice.LevelTier {
		who = " of tier " + tier
	}
	path := "limits." + a.Resource
	if at != "" && cost != sluice.Token {
		path = at + ".cost"
	}
	r.once(path, "a cost of %s can never pass %s%s, which has room for %s", sluice.Thousandths(cost), a.Resource, who, sluice.Thousandths(room))
}

// String is the same for the same costs.
func (c *costs) String() string {
	if c == nil {
		return ""
	}
	named := map[string]string{}
	for _, l := range c.named {
		named[l.Limit] = l.Cost.String()
	}
	var b strings.Builder
	b.WriteString(sluice.Thousandths(c.rule).String())
	for _, name := range slices.Sorted(maps.Keys(named)) {
		b.WriteString(" " + name + "=" + named[name])
	}
	return b.String()
}
