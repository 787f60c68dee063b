package gateway

import (
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/internal/headername"
	"github.com/sluice-go/sluice/internal/requestid"
	"github.com/sluice-go/sluice/policy"
)

// rewrite makes the request for the upstream. Hop-by-hop headers and whatever
// the client claims about forwarding are gone by now; what is added here is
// what the gateway knows, or what a proxy that it trusts has said.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Opaque = "" // the gate has gone by the path
	p.SetURL(g.upstream)
	p.Out.Trailer = nil // a server may take them for headers, and the gate has not seen them
	client, trusted := g.config.Gate.Client(p.In.Header, p.In.RemoteAddr)
	if trusted {
		chain := p.In.Header.Values("X-Forwarded-For")
		if g.config.Gate.ClientHeader() != "X-Forwarded-For" {
			chain = []string{client.String()} // the proxy told it in another header
		}
		if len(chain) > 0 {
			p.Out.Header["X-Forwarded-For"] = []string{strings.Join(chain, ", ")}
		}
	}
	for name := range p.Out.Header {
		if g.drops(name, trusted) {
			delete(p.Out.Header, name)
		}
	}
	p.SetXForwarded()
	if trusted {
		for _, name := range [...]string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
			if v := p.In.Header.Get(name); v != "" {
				p.Out.Header.Set(name, v)
			}
		}
	}
	p.Out.Header.Del("X-Real-Ip")
	if client.IsValid() {
		p.Out.Header["X-Real-Ip"] = []string{client.String()}
	}
	// A tunnel to a server that speaks HTTP in it would lead past the gate.
	if upgrade := p.Out.Header.Get("Upgrade"); upgrade != "" && !strings.EqualFold(upgrade, "websocket") {
		p.Out.Header.Del("Upgrade")
		p.Out.Header.Del("Connection")
	}
	p.Out.Header.Del("Http2-Settings")
	if _, ok := p.In.Header["User-Agent"]; !ok {
		p.Out.Header["User-Agent"] = []string{""} // not net/http's own
	}
}

// drops reports whether the upstream does not get a header of the client's. What
// the gateway vouches for is not taken from a client in another spelling, either.
func (g *Gateway) drops(name string, trusted bool) bool {
	policies := g.config.Gate.Policy()
	plain := headername.Dashed(name)
	switch {
	case strings.ContainsRune(name, '_'): // many servers take it for a dash: for one of the headers here, or for a credential
		return true
	case plain == "Proxy", strings.HasPrefix(plain, "Proxy-"): // hop-by-hop; CGI takes Proxy for the setting HTTP_PROXY
		return true
	case strings.HasPrefix(plain, "X-Forwarded-"):
		return !trusted || plain != name
	case slices.Contains(policy.Overrides[:], plain):
		return !slices.Contains(policies.Upstream.Pass, name)
	}
	return plain != name && (plain == "X-Real-Ip" || plain == requestid.Header || plain == "X-Api-Key" ||
		slices.ContainsFunc(policies.Identity.KeyHeaders, func(key string) bool { return strings.EqualFold(key, plain) }))
}

// modify lets each response have one word on limits: where the gate has set a
// header, the upstream's of the same name is dropped, and so is its request
// id.
func modify(r *http.Response) error {
	own := exchangeOf(r.Request.Context()).header
	for name := range own {
		if name == requestid.Header || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit-") {
			r.Header.Del(name)
		}
	}
	return nil
}
