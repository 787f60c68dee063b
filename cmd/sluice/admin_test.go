package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The admin address tells about all callers: on this machine to whoever asks it
// by its own name, elsewhere to those who have a token. Anybody may ask whether
// it is healthy.
func TestTheAdminAddressIsGuarded(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("prometheus: {role: read, secret: a-secret-to-read-metrics}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"serve"}, {"gateway", "--upstream", "http://127.0.0.1:1"}} {
		for listen, off := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
			t.Run(command[0]+" on "+listen, func(t *testing.T) {
				p := begin(t, append(command, "--admin-listen", listen, "--tokens", tokens, "--catalog", filepath.Join(t.TempDir(), "sluice.db"))...)
				status := func(path, host, token string) int {
					r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.admin+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					if host != "" {
						r.Host = host
					}
					if token != "" {
						r.Header.Set("Authorization", "Bearer "+token)
					}
					response, err := http.DefaultTransport.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					response.Body.Close()
					return response.StatusCode
				}
				without, rebound := 200, 403
				if off {
					without, rebound = 401, 401
				}
				for _, c := range []struct {
					path, host, token string
					want              int
				}{
					{"/metrics", "", "", without},
					{"/metrics", "evil.example", "", rebound}, // a name that somebody has pointed here
					{"/metrics", "", "a-secret-to-read-metrics", 200},
					{"/metrics", "sluice.internal", "a-secret-to-read-metrics", 200},
					{"/metrics", "", "a-secret-that-is-wrong", 401},
					{"/debug/pprof/", "evil.example", "", rebound},
					{"/nothing", "", "", map[bool]int{false: 404, true: 401}[off]},
					{"/healthz", "evil.example", "", 200},
					{"/readyz", "10.0.0.7:9090", "", 200},
				} {
					if got := status(c.path, c.host, c.token); got != c.want {
						t.Errorf("%s as %q with %q: %d, want %d", c.path, c.host, c.token, got, c.want)
					}
				}
				http.DefaultClient.CloseIdleConnections()
				p.signal(t, syscall.SIGTERM)
				p.wait(t)
				if strings.Contains(p.greeting, "a-secret") {
					t.Error(p.greeting)
				}
			})
		}
	}
}
