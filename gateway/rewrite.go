package gateway

import (
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

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
	pass := g.config.Gate.Policy().Upstream.Pass
	for name := range p.Out.Header {
		switch {
		case strings.ContainsRune(name, '_'), // many servers take it for a dash: for one of the headers here, or for a credential
			!trusted && strings.HasPrefix(name, "X-Forwarded-"),
			slices.Contains(policy.Overrides[:], name) && !slices.Contains(pass, name):
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
