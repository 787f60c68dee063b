package server

import (
	_ "embed"
	"net/http"
	"strings"
)

// startPage is what a person gets to see who looks for the server's address in
// a browser.
//
//go:embed start.html
var startPage []byte

// startText is the same for those who read no HTML.
const startText = `Sluice, a rate limiter: ask it before you do something, and it says yes or when to come back.

  curl -d '{"entity":"alice","resource":"chat","limits":{"rpm":"100/minute"}}' HERE/v1/take

/v1/openapi.yaml  the whole API, for people and programs; /v1/openapi.json is the same
/v1/me            how the holder of an API key stands
/healthz          whether the server runs
https://github.com/sluice-go/sluice has the documentation.
`

// start says what this is and where to go. It tells nobody anything about this
// server in particular.
func start(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Write(startPage) //nolint:errcheck // the client is gone
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	w.Write([]byte(strings.ReplaceAll(startText, "HERE", scheme+r.Host))) //nolint:errcheck // the client is gone
}
