package identity_test

import (
	"net/http"
	"testing"

	"github.com/sluice-go/sluice/identity"
)

// TestHoweverABearerIsWritten: what servers behind us take for a credential
// must not look like none to us.
func TestHoweverABearerIsWritten(t *testing.T) {
	i, err := identity.Open(t.Context(), identity.Config{Keys: []identity.Key{{Name: "a", SHA256: "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"}}}) // secret
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"Bearer secret", "bearer  secret ", "Bearer\tsecret", "BEARER \t secret"} {
		var id identity.Identity
		err := i.Identify(t.Context(), http.Header{"Authorization": {value}}, "192.0.2.1:1", &id)
		if err != nil || id.Entity != "key:a" {
			t.Errorf("%q: %s, %v", value, id.Entity, err)
		}
	}
	var id identity.Identity
	for _, value := range []string{"Bearersecret", "Basic c2VjcmV0", "Bearer", ""} {
		if err := i.Identify(t.Context(), http.Header{"Authorization": {value}}, "192.0.2.1:1", &id); err != nil || id.Kind != identity.ByAddress {
			t.Errorf("%q: %s, %v", value, id.Entity, err)
		}
	}
}
