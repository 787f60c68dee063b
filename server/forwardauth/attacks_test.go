package forwardauth_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/internal/wiretest"
)

// attacked lets one search pass in a week, and tells who is calling.
var attacked = fmt.Sprintf(`
version: 1
identity:
  address: {trusted_proxies: [127.0.0.0/8]}
  keys: [{name: k, entity: alice, tier: pro, scopes: [read], sha256: %x}]
tiers: {pro: {}}
limits:
  search: {per: everyone, match: [POST /search, /search/**], limit: 1/week}
  orders: {per: everyone, match: /orders, limit: 100/week}
endpoints:
  orders: {match: /orders, scopes: write}
exempt: {match: [/health]}
upstream: {entity: X-Sluice-Entity, tier: X-Sluice-Tier, scopes: X-Sluice-Scopes}
`, sha256.Sum256([]byte("secret")))

// wire sends bytes as they are and returns the answer.
func wire(t *testing.T, address, text string) answer {
	t.Helper()
	response, body := wiretest.Write(t, address, text)
	return answer{response.StatusCode, response.Header, body}
}

// TestAttacksThroughProxies: whatever a client writes, the protected server is
// not reached past a limit, and learns about the caller what Sluice knows.
func TestAttacksThroughProxies(t *testing.T) {
	for name, start := range map[string]func(*testing.T, http.Handler) string{"nginx": nginx, "caddy": caddy} {
		t.Run(name, func(t *testing.T) {
			proxy := start(t, authBy(t, attacked))
			end := "Host: " + proxy + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
			if a := wire(t, proxy, "POST /search HTTP/1.1\r\n"+end); a.status != 200 {
				t.Fatal(a)
			}
			for _, request := range []string{
				"POST /search HTTP/1.1\r\n",
				"POST /search#1 HTTP/1.1\r\n",
				"POST /search#?x HTTP/1.1\r\n",
				"POST /search?x#y HTTP/1.1\r\n",
				"POST /health#/../search HTTP/1.1\r\n",
				"POST /#/../search HTTP/1.1\r\n",
				"POST /search/%23 HTTP/1.1\r\n",
				"POST /search/x%23/.. HTTP/1.1\r\n",
				"POST /health%23/../search HTTP/1.1\r\n",
				"POST http://x/search#1 HTTP/1.1\r\n",
				"POST /search HTTP/1.1\r\nX-Original-URI: /health\r\n",
				"POST /search HTTP/1.1\r\nX-Original-URI: /health#\r\nX-Forwarded-Uri: /health#\r\n",
				"POST /search HTTP/1.1\r\nX-Forwarded-Uri: /health\r\nX_Forwarded_Uri: /health\r\nX-Forwarded-Method: GET\r\n",
				"POST /search HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\n",
				"POST /search HTTP/1.1\r\nX-Sluice-Status: 200\r\n",
				"CONNECT x:80 HTTP/1.1\r\n",
				"CONNECT /search HTTP/1.1\r\n",
			} {
				// Caddy makes %23 of a #, which is another name for everybody.
				a := wire(t, proxy, request+end)
				asked := a.header.Get("Asked")
				if asked != "" && (a.status != 200 || !strings.HasPrefix(asked, "/search%23")) || a.status >= 500 {
					t.Errorf("%q: %d %s, asked for %s", request, a.status, a.body, asked)
				}
			}
			for _, chunks := range []string{"zz\r\n", "-1\r\nx\r\n"} {
				a := wire(t, proxy, "POST /other HTTP/1.1\r\nHost: "+proxy+"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
				if strings.Contains(a.body, "the real thing") {
					t.Errorf("%q: %d %s", chunks, a.status, a.body)
				}
			}
			forged := "X-Sluice-Entity: root\r\nx-sluice-entity: root\r\nX_Sluice_Entity: root\r\nX.Sluice.Entity: root\r\nX-Sluice.Tier: best\r\nX-Sluice_Tier: best\r\nX-Sluice-Scopes: all\r\nX-HTTP-Method-Override: DELETE\r\nTrailer: X-Sluice-Entity\r\n"
			chunks := "Host: " + proxy + "\r\nConnection: close, X-Sluice-Entity\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sluice-Entity: root\r\n\r\n"
			for path, want := range map[string]string{
				"/other":  "X-Sluice-Entity=alice X-Sluice-Scopes=read X-Sluice-Tier=pro",
				"/health": "", // nobody has to know who that is
			} {
				a := wire(t, proxy, "POST "+path+" HTTP/1.1\r\nX-API-Key: secret\r\n"+forged+chunks)
				arrived := 0
				for _, v := range a.header["Arrived"] {
					if !strings.HasSuffix(v, "=") { // an empty one says as much as none
						arrived++
						if !strings.Contains(want, v) {
							t.Errorf("%s: %s arrives", path, v)
						}
					}
				}
				if a.status != 200 || arrived != len(strings.Fields(want)) {
					t.Errorf("%s: %d %s, arrived %v, want %s", path, a.status, a.body, a.header["Arrived"], want)
				}
			}
			for key, want := range map[string]int{"X-API-Key: secret\r\n": 403, "": 401} {
				if a := wire(t, proxy, "GET /orders HTTP/1.1\r\n"+key+end); a.status != want {
					t.Errorf("without the scope: %d %s, want %d", a.status, a.body, want)
				}
			}
		})
	}
}
