package httplimit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/internal/headername"
)

// missingScopes are those that the endpoint demands and the caller lacks.
func (c *Call) missingScopes() (missing []string) {
	for _, scope := range c.Route.Scopes {
		if !c.Identity.HasScope(scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// credentialNames are what callers have shown, for messages.
var credentialNames = [...]string{identity.ByKey: "API key", identity.ByToken: "token", identity.ByAddress: ""}

// tell returns the request with the headers by which the policy tells whoever
// is behind the gate about the caller. Nothing of what the client sent by these
// names is left, nor by names that other servers take for them.
func (c *Call) tell(r *http.Request, names []string) *http.Request {
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	ours := func(name string) bool {
		name = headername.Dashed(strings.TrimSpace(name))
		return slices.ContainsFunc(names, func(n string) bool { return headername.Dashed(n) == name })
	}
	for name := range r.Header {
		if ours(name) {
			delete(r.Header, name)
		}
	}
	// A proxy drops what Connection names.
	for i, v := range r.Header["Connection"] {
		r.Header["Connection"][i] = strings.Join(slices.DeleteFunc(strings.Split(v, ","), ours), ",")
	}
	scopes := make([]string, len(c.Identity.Scopes))
	for i, s := range c.Identity.Scopes {
		scopes[i] = escaped(s)
	}
	u := &c.Policy.Upstream
	for name, value := range map[string]string{u.Entity: escaped(c.Identity.Entity), u.Tier: escaped(c.Tier), u.Scopes: strings.Join(scopes, " ")} {
		if name != "" && value != "" {
			r.Header[name] = []string{value}
		}
	}
	return r
}

// escaped is s with percent signs and all that is not printable ASCII written
// as in a URL, so that any name can be the value of a header.
func escaped(s string) string {
	const digits = "0123456789ABCDEF"
	plain := func(c byte) bool { return c > ' ' && c < 127 && c != '%' }
	if !slices.ContainsFunc([]byte(s), func(c byte) bool { return !plain(c) }) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
