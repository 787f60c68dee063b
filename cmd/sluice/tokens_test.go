package main

import (
	"strings"
	"testing"

	"github.com/sluice-go/sluice/server"
)

// TestNamedTokens: the audit log has the name of whoever's token it was.
func TestNamedTokens(t *testing.T) {
	dir := t.TempDir()
	f := serveFlags{tokens: writeFile(t, dir, "tokens.yaml", "alice: {role: admin, secret: 0123456789abcdef}\nmonitor: {role: read, secret: fedcba9876543210}\n")}
	f.listen = "0.0.0.0:8080"
	access, err := f.access(false)
	if err != nil || len(access.Tokens) != 2 || access.Tokens[1] != (server.Token{Name: "monitor", Secret: "fedcba9876543210", Role: server.RoleRead}) {
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
		"alice: {role: king, secret: 0123456789abcdef}":            "alice: role",
		"alice: {role: admin, secret: short}":                      "at least 16 bytes",
		"alice: {role: admin, secret: 0123456789abcdef, scope: a}": "want lines such as",
		"alice: 0123456789abcdef":                                  "want lines such as",
	} {
		_, err := readTokens(writeFile(t, dir, "bad.yaml", text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
