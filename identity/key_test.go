package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

var errDown = errors.New("the catalog is down")

func keyed(t testing.TB) *Identifier {
	return identifier(t, Config{Keys: []Key{
		{Name: "ci", SHA256: hash("s3cret"), Entity: "acme", Tier: "pro", Scopes: []string{"read"}},
		{Name: "alone", SHA256: strings.ToUpper(hash("alone"))},
		{Name: "old", SHA256: hash("old"), Expires: time.Now().Add(-time.Hour)},
	}}, WithVerifier(func(_ context.Context, key string) (Verified, error) {
		switch key {
		case "stored":
			return Verified{Key: "key:k1", Entity: "globex", Tier: "free"}, nil
		case "down":
			return Verified{}, errDown
		case "nameless":
			return Verified{Key: "key:k2"}, nil
		}
		return Verified{}, ErrNoKey
	}))
}

func TestAPIKeys(t *testing.T) {
	i := keyed(t)
	for _, test := range []struct {
		name   string
		header http.Header
		entity string
		key    string
		tier   string
	}{
		{"in its own header", http.Header{"X-Api-Key": {"s3cret"}}, "acme", "key:ci", "pro"},
		{"as bearer", http.Header{"Authorization": {"bearer s3cret"}}, "acme", "key:ci", "pro"},
		{"the own header goes first", http.Header{"X-Api-Key": {"alone"}, "Authorization": {"Bearer s3cret"}}, "key:alone", "key:alone", ""},
		{"from the catalog", http.Header{"X-Api-Key": {"stored"}}, "globex", "key:k1", "free"},
		{"another scheme is not ours", http.Header{"Authorization": {"Basic s3cret"}}, "ip:192.0.2.1", "", ""},
		{"an empty header is none", http.Header{"X-Api-Key": {""}}, "ip:192.0.2.1", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := identify(t, i, test.header, "192.0.2.1:1")
			if id.Entity != test.entity || id.Key != test.key || id.Tier != test.tier || id.Address != "ip:192.0.2.1" {
				t.Errorf("got %+v", id)
			}
			if id.HasScope("read") != (test.entity == "acme") {
				t.Errorf("scopes: %v", id.Scopes)
			}
		})
	}
}

func TestAnInvalidKeyIsAnErrorAndKeepsTheAddress(t *testing.T) {
	i := keyed(t)
	for _, header := range []http.Header{
		{"X-Api-Key": {"S3cret"}},
		{"X-Api-Key": {"old"}},
		{"X-Api-Key": {"nameless"}},
		{"X-Api-Key": {"s3cret", "s3cret"}},
		{"X-Api-Key": {strings.Repeat("x", 513)}},
		{"Authorization": {"Bearer guess"}},
		{"Authorization": {"Bearer s3cret", "Bearer s3cret"}},
		{"X-Api-Key": {"guess"}, "Authorization": {"Bearer s3cret"}},
	} {
		var id Identity
		err := i.Identify(t.Context(), header, "192.0.2.1:1", &id)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Kind != ByKey {
			t.Errorf("%v: %v", header, err)
			continue
		}
		for _, values := range header {
			if strings.Contains(err.Error(), values[0]) {
				t.Errorf("the error quotes the credential: %v", err)
			}
		}
		if id.Kind != ByAddress || id.Entity != "ip:192.0.2.1" || id.Address != id.Entity || id.Tier != "" {
			t.Errorf("%v: %+v", header, id)
		}
	}
}

func TestACatalogThatIsDownIsNotAnInvalidKey(t *testing.T) {
	var id Identity
	err := keyed(t).Identify(t.Context(), http.Header{"X-Api-Key": {"down"}}, "192.0.2.1:1", &id)
	if !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
}

func TestCredentialsNobodyAskedForAreIgnored(t *testing.T) {
	i := identifier(t, Config{})
	id := identify(t, i, http.Header{"X-Api-Key": {"a", "b"}, "Authorization": {"Bearer x"}}, "192.0.2.1:1")
	if id.Entity != "ip:192.0.2.1" {
		t.Errorf("got %+v", id)
	}
}

func TestEveryMistakeIsReported(t *testing.T) {
	c := Config{
		KeyHeaders: []string{"X API Key"},
		Keys:       []Key{{Name: "", SHA256: "abc"}, {Name: "a", SHA256: hash("a")}, {Name: "a", SHA256: hash("a")}},
		JWT:        &JWT{Algorithms: []string{"none", "HS256"}, JWKSURL: "http://example.com/keys", Leeway: time.Hour},
		Address:    Address{Header: "X-Client", IPv4Prefix: 40, IPv6Prefix: 200},
	}
	var fields []string
	for _, m := range c.Check() {
		fields = append(fields, m.Field)
	}
	want := []string{
		"key_headers[0]", "keys[0].name", "keys[0].sha256", "keys[2].name", "keys[2].sha256",
		"jwt.algorithms[0]", "jwt.algorithms[1]", "jwt.jwks_url", "jwt.leeway",
		"address.header", "address.ipv4_prefix", "address.ipv6_prefix",
	}
	if strings.Join(fields, " ") != strings.Join(want, " ") {
		t.Errorf("got  %v\nwant %v", fields, want)
	}
	if _, err := Open(t.Context(), c); err == nil {
		t.Error("it was accepted")
	}
}

func TestAKeyCostsNoMemory(t *testing.T) {
	i := keyed(t)
	header := http.Header{"X-Api-Key": {"s3cret"}}
	var id Identity
	if n := testing.AllocsPerRun(100, func() {
		if err := i.Identify(context.Background(), header, "192.0.2.1:1", &id); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
