package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNamedTokens: the audit log has the name of whoever's token it was.
func TestNamedTokens(t *testing.T) {
	dir := t.TempDir()
	var f serveFlags
	f.tokens = writeFile(t, dir, "tokens.yaml", "alice: {role: admin, secret: 0123456789abcdef}\nmonitor: {role: read, secret: fedcba9876543210}\n")
	f.listen = "0.0.0.0:8080"
	access, err := f.access(false)
	if err != nil || access.Open {
		t.Fatalf("%+v, %v", access, err)
	}
	s := startServer(t, access)
	s.ok(t, "--token", "0123456789abcdef", "entity", "create", "bob")
	if got := s.ok(t, "--token", "0123456789abcdef", "audit", "list", "bob"); !strings.Contains(got, "  alice  ") {
		t.Error(got)
	}
	if got := s.sluice(t, "", "--token", "fedcba9876543210", "entity", "create", "eve"); got.code != 2 || !strings.Contains(got.stderr, "monitor has read") {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{
		"alice: {role: king, secret: 0123456789abcdef}":                                               "alice: role",
		"alice: {role: admin, secret: short}":                                                         "at least 16 bytes",
		"alice: {role: admin, secret: 0123456789abcdef, scope: a}":                                    "want lines such as",
		"alice: 0123456789abcdef":                                                                     "want lines such as",
		"bob: {role: read, secret: 0123456789abcdef}\nalice: {role: admin, secret: 0123456789abcdef}": "alice and bob have the same secret",
		"{}": "names nobody",
	} {
		_, err := readTokens(writeFile(t, dir, "bad.yaml", text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTokensAreReadAgain: a hangup makes a new file count.
func TestTokensAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	const old, fresh = "0123456789abcdef", "fedcba9876543210"
	file := writeFile(t, dir, "tokens.yaml", "alice: {role: admin, secret: "+old+"}\n")
	p := begin(t, "serve", "--catalog", filepath.Join(dir, "sluice.db"), "--tokens", file)
	works := func(token string) bool {
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.url()+"/v1/namespaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := p.transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	if !works(old) || works(fresh) {
		t.Fatal("at the start, another token works than that of the file")
	}
	writeFile(t, dir, "tokens.yaml", "bob: {role: admin, secret: "+fresh+"}\n")
	p.signal(t, syscall.SIGHUP)
	eventually(t, "the new token works", func() bool { return works(fresh) })
	if works(old) {
		t.Error("the old token still works")
	}
}
