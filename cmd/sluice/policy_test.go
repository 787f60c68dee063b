package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicyCheckWarns of what is hardly meant, and succeeds all the same.
func TestPolicyCheckWarns(t *testing.T) {
	dir := t.TempDir()
	check := func(text string) (string, int) {
		var out, errs strings.Builder
		code := run(t.Context(), []string{"policy", "check", writeFile(t, dir, "policy.yaml", text)}, strings.NewReader(""), &out, &errs)
		return errs.String(), code
	}
	jwt := "identity: {jwt: {algorithms: [HS256], secret_file: " + filepath.Join(dir, "secret") + "}}\n"
	for _, c := range []struct{ text, want string }{
		{"version: 1\n", "no limits"},
		{"version: 1\nlimits: {all: {limit: 5/minute}}\n" + jwt, "identity.jwt.secret_file: "},
		{"version: 1\nlimits:\n  all: {limit: 5/minute, match: GTE /api/**}\n", `policy.yaml:3:33: warning: limits.all.match[0]: HTTP has no method GTE; did you mean "GET"?`},
		{"version: 1\nlimits: {all: {limit: 5/minute}}\nexempt: {methods: [OPTION]}\n", `exempt.methods[0]: HTTP has no method OPTION; did you mean "OPTIONS"?`},
		{"version: 1\ntiers: {gold: {limits: {all: 5/minute}}}\nlimits: {all: {}}\n", "tier gold has no quota"},
		{"version: 1\ntiers: {pro: {limits: {all: 5/minute}}, gold: {limits: {all: 9/minute}}}\ndefault_tier: pro\nlimits: {all: {}}\ndegraded: {quotas: {gold: 5/s}}\n", "tier pro has no quota"},
	} {
		if got, code := check(c.text); code != 0 || !strings.Contains(got, "warning: ") || !strings.Contains(got, c.want) {
			t.Errorf("%q: exit %d, %q", c.text, code, got)
		}
	}
	writeFile(t, dir, "secret", strings.Repeat("x", 32))
	for _, text := range []string{"version: 1\nlimits: {all: {limit: 5/minute}}\n" + jwt, "version: 1\nsystem: {limit: {rpm: 1/minute}}\n",
		"version: 1\nlimits: {all: {limit: 5/minute, match: [PROPFIND /a, PURGE /b, get /c]}}\n",
		"version: 1\ntiers: {pro: {limits: {all: 5/minute}}}\nlimits: {all: {}}\n",
		"version: 1\ntiers: {gold: {limits: {all: 5/minute}}}\nlimits: {all: {}}\ndegraded: {quotas: {others: 1/s}}\n"} {
		if got, code := check(text); code != 0 || got != "" {
			t.Errorf("%q: exit %d, %q", text, code, got)
		}
	}
}

// TestBoundsOfMemory: what the flags say reaches the store and the catalog.
func TestBoundsOfMemory(t *testing.T) {
	at := filepath.Join(t.TempDir(), "sluice.db")
	p := places{store: database{flag: "store", address: "memory"}, catalog: database{flag: "catalog", address: at}, memoryBytes: 1}
	if _, err := open(t.Context(), p, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Error(err)
	}
	p.memoryBytes, p.memoryBuckets = 0, -1
	if _, err := open(t.Context(), p, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "MaxBuckets") {
		t.Error(err)
	}
	p.memoryBuckets, p.cacheTTL = 10, 1
	if _, err := open(t.Context(), p, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "config.ttl") {
		t.Error(err)
	}
}
