package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/server"
)

// withEnvironment runs a command that sees these variables alone.
func withEnvironment(t *testing.T, variables map[string]string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	for _, name := range []string{"SLUICE_SERVER", "SLUICE_TOKEN", "SLUICE_NAMESPACE"} {
		t.Setenv(name, variables[name])
	}
	code := run(t.Context(), args, nil, &stdout, &stderr)
	return said{stdout.String(), stderr.String(), code}
}

func TestTokens(t *testing.T) {
	const admin, reader = "an admin's secret", "a reader's secret"
	s := startServer(t, server.Access{Tokens: []server.Token{
		{Name: "admin", Secret: admin, Role: server.RoleAdmin}, {Name: "reader", Secret: reader, Role: server.RoleRead},
	}})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(admin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variables map[string]string
		args      string
		code      int
		stderr    string
	}{
		{nil, "system get", 2, "give one with --token or SLUICE_TOKEN"},
		{map[string]string{"SLUICE_TOKEN": "wrong"}, "system get", 2, "is not valid"},
		{map[string]string{"SLUICE_TOKEN": reader}, "tier list", 0, ""},
		{map[string]string{"SLUICE_TOKEN": reader}, "tier set pro", 2, "this requires the role admin"},
		{map[string]string{"SLUICE_TOKEN": admin}, "tier set pro", 0, ""},
		{map[string]string{"SLUICE_TOKEN": "@" + file}, "tier set pro", 0, ""},
		{map[string]string{"SLUICE_TOKEN": "wrong"}, "tier set pro --token @" + file, 0, ""},
		{map[string]string{"SLUICE_TOKEN": admin, "SLUICE_NAMESPACE": "shop"}, "tier set pro", 2, "shop"},
	} {
		if c.variables == nil {
			c.variables = map[string]string{}
		}
		c.variables["SLUICE_SERVER"] = s.url
		got := withEnvironment(t, c.variables, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%v %s: exit %d\n%s%s", c.variables, c.args, got.code, got.stdout, got.stderr)
		}
		if strings.Contains(got.stdout+got.stderr, "secret") {
			t.Errorf("%s: a secret is printed: %s%s", c.args, got.stdout, got.stderr)
		}
	}
}

func TestServerWithACertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"tiers":[]}`))
	}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, stderr string
		code         int
	}{
		{"tier list --server " + s.URL, "certificate", 2},
		{"tier list --server " + s.URL + " --ca " + ca, "", 0},
		{"tier list --server " + s.URL + " --ca /nowhere", "--ca: open /nowhere", 2},
		{"tier list --server " + s.URL + " --cert " + ca, "belong together", 2},
	} {
		if got := withEnvironment(t, nil, strings.Fields(c.args)...); got.code != c.code || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s: exit %d\n%s%s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

// Names cannot move the cursor of whoever looks at them.
func TestNamesArePrintable(t *testing.T) {
	s := openServer(t)
	s.ok(t, "take", "evil\u202e", "api")
	for _, args := range [][]string{{"top", "--once"}, {"resource", "buckets", "api"}, {"take", "evil\u202e", "api"}, {"status", "evil\u202e"}} {
		if out := s.ok(t, args...); strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%q printed %q", args, out)
		}
	}
}
