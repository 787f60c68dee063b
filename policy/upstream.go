package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/excerpt"
)

// Upstream selects the headers that tell the upstream who is calling. Only the
// gate writes them: what a client sends under these names is removed.
type Upstream struct {
	Entity string   `yaml:"entity" check:"header" doc:"Header that names the caller, such as X-Sluice-Entity. Default: none."`
	Tier   string   `yaml:"tier" check:"header" doc:"Header with the caller's tier, such as X-Sluice-Tier. Default: none."`
	Scopes string   `yaml:"scopes" check:"header" doc:"Header with the scopes of the caller's key or token, such as X-Sluice-Scopes. Default: none."`
	Pass   []string `yaml:"pass" check:"header" doc:"Headers that the gateway drops unless they are here, because they can change what a request asks for: X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override, X-Original-URL, X-Original-URI, X-Rewrite-URL."`
}

// Names returns the headers for the caller, or nil if there are none.
func (u *Upstream) Names() []string {
	var names []string
	for _, name := range [...]string{u.Entity, u.Tier, u.Scopes} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Overrides are the headers by which some servers take a request for another
// one. They are in canonical form.
var Overrides = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url"}

// upstream reports headers that the gate cannot vouch for, or that are nothing
// to let pass.
func (c *compiler) upstream(u *Upstream) {
	seen := map[string]bool{}
	for _, h := range [...]struct{ path, name string }{{"upstream.entity", u.Entity}, {"upstream.tier", u.Tier}, {"upstream.scopes", u.Scopes}} {
		_, standard := standardHeaders[h.name]
		switch {
		case h.name == "":
		case standard || strings.Contains(h.name, "_") || strings.HasPrefix(h.name, "X-Forwarded-") || strings.HasPrefix(h.name, "Content-"):
			c.add(h.path, "%q cannot be used for this: expected a name of its own with dashes, such as X-Sluice-Entity", h.name)
		case seen[h.name]:
			c.add(h.path, "%q is used twice", h.name)
		}
		seen[h.name] = true
	}
	for i, name := range u.Pass {
		if !slices.Contains(Overrides[:], name) {
			c.guess(fmt.Sprintf("upstream.pass[%d]", i), name, Overrides[:], "%q passes anyway; %s", excerpt.Of(name), among(Overrides[:]))
		}
	}
}

// standardHeaders have a meaning of their own.
var standardHeaders = map[string]struct{}{
	"Host": {}, "Connection": {}, "Keep-Alive": {}, "Te": {}, "Trailer": {}, "Transfer-Encoding": {}, "Upgrade": {}, "Expect": {},
	"Cookie": {}, "Authorization": {}, "X-Real-Ip": {}, "X-Request-Id": {}, "Forwarded": {},
}
