package policy

import (
	"strings"
	"testing"
)

// TestAResponseIsKeptForASecondAtLeast, or the route could not be used.
func TestAResponseIsKeptForASecondAtLeast(t *testing.T) {
	for ttl, ok := range map[string]bool{"1s": true, "500ms": false, "1ns": false} {
		_, err := Parse("test", []byte("version: 1\nidempotency: {orders: {match: POST /orders, ttl: "+ttl+"}}\n"))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "idempotency.orders.ttl") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
