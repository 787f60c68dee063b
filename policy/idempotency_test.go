package policy

import (
	"strings"
	"testing"
)

// TestAWriteMayTakeASecondAtLeast, and no longer than its response is kept.
func TestAWriteMayTakeASecondAtLeast(t *testing.T) {
	for text, ok := range map[string]bool{"max_run: 1s": true, "max_run: 500ms": false, "max_run: 2h": false, "ttl: 1m, max_run: 2m": false, "ttl: 1m": true} {
		p, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, "+text+"}}\n"))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "idempotency.orders.max_run") {
			t.Errorf("%s: %v", text, err)
		}
		if !ok {
			continue
		}
		if r := p.Match("POST", "/orders").Idempotency; r.MaxRun > r.TTL {
			t.Errorf("%s: max_run is %s", text, r.MaxRun)
		}
	}
}

// TestWhoseKeysARuleIsAbout: scopes and headers are checked, and a rule that lets
// callers without an identity use keys says so.
func TestWhoseKeysARuleIsAbout(t *testing.T) {
	for text, want := range map[string]string{
		"scope: caller": "scope", "scope: header": "scope", "scope: 'header:'": "scope", "scope: 'claim:org'": "scope",
		"headers: [Set-Cookie]": "headers[0]", "headers: [X-Order-Id]": "", "scope: namespace": "", "scope: tenant": "scope", "scope: key": "", "scope: 'header:x-org'": "",
	} {
		p, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, "+text+"}}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "idempotency.orders."+want) {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && (len(p.Warnings) == 1) == (strings.Contains(text, "key") || strings.Contains(text, "org")) {
			t.Errorf("%s: warnings %v", text, p.Warnings)
		}
	}
	if p, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, identity: required}}\n")); err != nil || len(p.Warnings) > 0 {
		t.Errorf("%v, %v", p.Warnings, err)
	}
}

// TestAResponseIsKeptForASecondAtLeast, or the route could not be used.
func TestAResponseIsKeptForASecondAtLeast(t *testing.T) {
	for ttl, ok := range map[string]bool{"1s": true, "500ms": false, "1ns": false} {
		_, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, ttl: "+ttl+"}}\n"))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "idempotency.orders.ttl") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
