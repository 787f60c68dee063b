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

// TestAResponseIsKeptForASecondAtLeast, or the route could not be used.
func TestAResponseIsKeptForASecondAtLeast(t *testing.T) {
	for ttl, ok := range map[string]bool{"1s": true, "500ms": false, "1ns": false} {
		_, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, ttl: "+ttl+"}}\n"))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "idempotency.orders.ttl") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
