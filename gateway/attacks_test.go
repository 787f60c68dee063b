package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/wiretest"
)

// wire sends bytes as they are and returns the status and body of the answer.
func wire(t *testing.T, url, text string) (int, string) {
	t.Helper()
	response, body := wiretest.Write(t, strings.TrimPrefix(url, "http://"), text)
	return response.StatusCode, body
}

// searches has a limit for one path and one for a method, and something exempt.
const searches = `
version: 1
limits: {search: {per: ip, match: POST /search, limit: 1/week}}
exempt: {match: [/health]}
`

// TestNoSpellingLeadsPastALimit: what the upstream takes for a search is one
// for the gate.
func TestNoSpellingLeadsPastALimit(t *testing.T) {
	up := upstream(t, echo)
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, searches)})
	do(t, "POST", url+"/search", nil)
	for request, want := range map[string]int{
		"POST /search#x HTTP/1.1\r\n":                                            400,
		"POST /search?q#x HTTP/1.1\r\n":                                          400,
		"POST /#/../search HTTP/1.1\r\n":                                         400,
		"POST /health#/../search HTTP/1.1\r\n":                                   400,
		"POST http://x/search#x HTTP/1.1\r\n":                                    400,
		"POST /search%23x HTTP/1.1\r\n":                                          200, // another name, for everybody
		"POST /search/%23/.. HTTP/1.1\r\n":                                       429,
		"POST /search HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\n":               429,
		"POST /search HTTP/1.1\r\nX-Original-URI: /health\r\n":                   429,
		"POST /search HTTP/1.1\r\nX-Forwarded-Uri: /health\r\n":                  429,
		"POST /search HTTP/1.1\r\nX-Forwarded-Method: GET\r\n":                   429,
		"CONNECT x:80 HTTP/1.1\r\n":                                              405,
		"CONNECT /search HTTP/1.1\r\n":                                           405,
		"GET /search HTTP/1.1\r\nX-Original-URL: /x\r\nX-Rewrite-URL: /x\r\n":    200,
		"GET /search HTTP/1.1\r\nX-HTTP-Method: POST\r\nX-Forwarded-Uri: /x\r\n": 200,
	} {
		status, body := wire(t, url, request+"Host: x\r\nContent-Length: 0\r\n\r\n")
		if status != want {
			t.Errorf("%q: %d %s, want %d", request, status, body, want)
		}
		for _, name := range []string{"Override", "X-Http-Method", "X-Original", "X-Rewrite", "X-Forwarded-Uri", "X-Forwarded-Method"} {
			if status == 200 && strings.Contains(body, name) {
				t.Errorf("%q: the upstream gets %s", request, body)
			}
		}
	}
}

// TestOverridesPassWhereThePolicySaysSo: and no others.
func TestOverridesPassWhereThePolicySaysSo(t *testing.T) {
	up := upstream(t, echo)
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, searches+"upstream: {pass: X-HTTP-Method-Override}\n")})
	_, body := do(t, "POST", url+"/x", nil, "X-HTTP-Method-Override", "PUT", "X-Rewrite-URL", "/search")
	if !strings.Contains(body, `"X-Http-Method-Override":["PUT"]`) || strings.Contains(body, "X-Rewrite-Url") {
		t.Error(body)
	}
}

// TestMalformedBodies are the client's fault, whoever reads them.
func TestMalformedBodies(t *testing.T) {
	up := upstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, keyed), Inner: httplimit.Idempotent(keeper(t))})
	for _, path := range []string{"/x", "/orders"} {
		for _, chunks := range []string{"zz\r\n", "-1\r\nx\r\n", "5\r\nabcdefgh\r\n0\r\n\r\n", "5;\nhello\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "1\r\na\r\nx\r\n"} {
			status, body := wire(t, url, "POST "+path+" HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
			if status != 400 {
				t.Errorf("%s %q: %d %s", path, chunks, status, body)
			}
		}
	}
}

// TestHeadersForTheNextHop stay here, in whatever spelling, and so do forged
// ones about the way that a request has come.
func TestHeadersForTheNextHop(t *testing.T) {
	_, url := running(t, gateway.Config{Upstream: upstream(t, echo), Gate: gate(t, keyed)})
	status, body := wire(t, url, "GET /x HTTP/1.1\r\nHost: x\r\nX-Kept.Here: yes\r\n"+
		"Proxy: http://6.6.6.6\r\nProxy-Foo: 1\r\nProxy-Authorization: Basic x\r\nPROXY.FOO: 1\r\n"+
		"X.Forwarded.For: 6.6.6.6\r\nX-Real.IP: 6.6.6.6\r\nX.Http.Method.Override: PUT\r\nX.API.Key: secret\r\n\r\n")
	var got echoed
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
		t.Fatal(status, body, err)
	}
	for name := range got.Header {
		if strings.HasPrefix(strings.ToLower(name), "proxy") || strings.Contains(name, ".") && name != "X-Kept.here" {
			t.Errorf("the upstream gets %s", name)
		}
	}
	if got.Header["X-Kept.here"] == nil {
		t.Errorf("%v", got.Header)
	}
}

func sum(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

// TestNobodyForgesWhoIsCalling: the headers for the caller are the gate's, and
// the client can neither write them nor have them dropped.
func TestNobodyForgesWhoIsCalling(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for name, values := range r.Trailer {
			r.Header["Trailer-"+name] = values
		}
		echo(w, r)
	})
	text := keyed + `
exempt: {match: /open}
identity: {keys: [{name: k, entity: "a b%ü", tier: pro, scopes: ["orders:read", "x"], sha256: ` + sum("secret") + `}]}
tiers: {pro: {}}
upstream: {entity: X-Who, tier: X-Plan, scopes: X-May}
`
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, text), Inner: httplimit.Idempotent(keeper(t))})
	forged := "X-Who: root\r\nx-who: root\r\nX_Who: root\r\nX.Who: root\r\nx~who: root\r\nX!May: all\r\nX-WHO: root\r\nX-Plan: best\r\nX-May: all\r\nX_MAY: all\r\nConnection: close, x-who, X-May\r\nTrailer: X-Who, X-May, X-Forwarded-For\r\n"
	chunks := "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Who: root\r\nX-May: all\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
	for path, want := range map[string][3]string{"/x": {"a%20b%25%C3%BC", "pro", "orders:read x"}, "/orders": {"a%20b%25%C3%BC", "pro", "orders:read x"}, "/open": {}} {
		status, body := wire(t, url, "POST "+path+" HTTP/1.1\r\nHost: x\r\nX-API-Key: secret\r\nIdempotency-Key: k\r\n"+forged+chunks)
		var got echoed
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
			t.Fatal(status, body, err)
		}
		h := got.Header
		if h.Get("X-Who") != want[0] || h.Get("X-Plan") != want[1] || h.Get("X-May") != want[2] {
			t.Errorf("%s: %v", path, h)
		}
		for name, values := range h {
			if strings.HasPrefix(name, "Trailer") || strings.Contains(name, "_") || len(values) != 1 || values[0] == "root" || values[0] == "all" {
				t.Errorf("%s: %s: %v", path, name, values)
			}
		}
	}
}
