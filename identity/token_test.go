package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const secret = "0123456789abcdef0123456789abcdef"

var (
	rsaKey, _   = rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _    = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edKey, _ = ed25519.GenerateKey(rand.Reader)
	otherKey, _ = rsa.GenerateKey(rand.Reader, 2048)
	tomorrow    = time.Now().Add(24 * time.Hour).Unix()
	validClaims = jwt.MapClaims{"sub": "alice", "tier": "pro", "exp": tomorrow, "iss": "https://issuer.example", "aud": "api"}
)

func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, kid string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(t testing.TB, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func publicPEM(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func keySet(t testing.TB, keys map[string]any) []byte {
	t.Helper()
	var set jwkset.JWKSMarshal
	for kid, key := range keys {
		jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{
			Metadata: jwkset.JWKMetadataOptions{KID: kid},
			Marshal:  jwkset.JWKMarshalOptions{Private: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, jwk.Marshal())
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func with(changes jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{}
	for k, v := range validClaims {
		c[k] = v
	}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestTokensOfEveryFamily(t *testing.T) {
	set := file(t, keySet(t, map[string]any{"r": rsaKey.Public(), "e": ecKey.Public(), "d": edKey.Public()}))
	for name, test := range map[string]struct {
		config JWT
		token  string
	}{
		"HS256":         {JWT{Algorithms: []string{"HS256"}, SecretFile: file(t, []byte(secret+"\n"))}, sign(t, jwt.SigningMethodHS256, []byte(secret), validClaims, "")},
		"RS256 PEM":     {JWT{Algorithms: []string{"RS256"}, PublicKeyFile: file(t, publicPEM(t, rsaKey))}, sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "")},
		"ES256 PEM":     {JWT{Algorithms: []string{"ES256"}, PublicKeyFile: file(t, publicPEM(t, ecKey))}, sign(t, jwt.SigningMethodES256, ecKey, validClaims, "")},
		"EdDSA PEM":     {JWT{Algorithms: []string{"EdDSA"}, PublicKeyFile: file(t, publicPEM(t, edKey))}, sign(t, jwt.SigningMethodEdDSA, edKey, validClaims, "")},
		"PS256 set":     {JWT{Algorithms: []string{"PS256"}, JWKSFile: set}, sign(t, jwt.SigningMethodPS256, rsaKey, validClaims, "r")},
		"ES256 set":     {JWT{Algorithms: []string{"RS256", "ES256"}, JWKSFile: set}, sign(t, jwt.SigningMethodES256, ecKey, validClaims, "e")},
		"set, no kid":   {JWT{Algorithms: []string{"EdDSA"}, JWKSFile: set}, sign(t, jwt.SigningMethodEdDSA, edKey, validClaims, "")},
		"issuer":        {JWT{Algorithms: []string{"ES256"}, JWKSFile: set, Issuer: "https://issuer.example", Audience: []string{"x", "api"}}, sign(t, jwt.SigningMethodES256, ecKey, validClaims, "e")},
		"leeway":        {JWT{Algorithms: []string{"ES256"}, JWKSFile: set, Leeway: time.Minute}, sign(t, jwt.SigningMethodES256, ecKey, with(jwt.MapClaims{"exp": time.Now().Add(-30 * time.Second).Unix()}), "e")},
		"number as sub": {JWT{Algorithms: []string{"ES256"}, JWKSFile: set, SubjectClaim: "uid"}, sign(t, jwt.SigningMethodES256, ecKey, with(jwt.MapClaims{"uid": 9007199254740993}), "e")},
		"nested":        {JWT{Algorithms: []string{"ES256"}, JWKSFile: set, SubjectClaim: "user.id", TierClaim: "https://a.example/tier"}, sign(t, jwt.SigningMethodES256, ecKey, with(jwt.MapClaims{"user": map[string]any{"id": "alice"}, "https://a.example/tier": "pro"}), "e")},
	} {
		t.Run(name, func(t *testing.T) {
			id := identify(t, identifier(t, Config{JWT: &test.config}), bearer(test.token), "192.0.2.1:1")
			want := "user:alice"
			if test.config.SubjectClaim == "uid" {
				want = "user:9007199254740993"
			}
			if id.Kind != ByToken || id.Entity != want || id.Tier != "pro" || id.Address != "ip:192.0.2.1" {
				t.Errorf("got %+v", id)
			}
			if iss, ok := id.Claim("iss"); !ok || iss != "https://issuer.example" {
				t.Errorf("claim iss: %q, %v", iss, ok)
			}
		})
	}
}

func TestScopesOfATokenAreAListOrAText(t *testing.T) {
	config := JWT{Algorithms: []string{"HS256"}, SecretFile: file(t, []byte(secret))}
	named := config
	named.ScopeClaim = "realm.roles"
	for name, test := range map[string]struct {
		config JWT
		claims jwt.MapClaims
		want   string
	}{
		"none":    {config, jwt.MapClaims{}, "[]"},
		"a text":  {config, jwt.MapClaims{"scope": " orders:read  orders:write"}, "[orders:read orders:write]"},
		"a list":  {config, jwt.MapClaims{"scope": []any{"orders:read", 7, "a b"}}, "[orders:read a b]"},
		"nested":  {named, jwt.MapClaims{"scope": "x", "realm": map[string]any{"roles": []string{"y"}}}, "[y]"},
		"a truth": {config, jwt.MapClaims{"scope": true}, "[]"},
	} {
		id := identify(t, identifier(t, Config{JWT: &test.config}), bearer(sign(t, jwt.SigningMethodHS256, []byte(secret), with(test.claims), "")), "192.0.2.1:1")
		if got := fmt.Sprint(id.Scopes); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTokensThatAreNotValid(t *testing.T) {
	config := JWT{
		Algorithms: []string{"RS256", "ES256"}, Issuer: "https://issuer.example", Audience: []string{"api"},
		JWKSFile: file(t, keySet(t, map[string]any{"r": rsaKey.Public(), "e": ecKey.Public(), "s": []byte(secret)})),
	}
	i := identifier(t, Config{JWT: &config})
	pemOfKey := publicPEM(t, rsaKey)
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, validClaims).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "r")
	head, rest, _ := strings.Cut(good, ".")
	payload, _, _ := strings.Cut(rest, ".")
	extended := jwt.NewWithClaims(jwt.SigningMethodRS256, validClaims)
	extended.Header["kid"], extended.Header["crit"], extended.Header["b64"] = "r", []string{"b64"}, true
	critical, err := extended.SignedString(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"none":                           unsigned,
		"an extension it must know":      critical,
		"HMAC with the public key":       sign(t, jwt.SigningMethodHS256, pemOfKey, validClaims, "r"),
		"HMAC with a secret of the set":  sign(t, jwt.SigningMethodHS256, []byte(secret), validClaims, "s"),
		"an algorithm nobody named":      sign(t, jwt.SigningMethodRS512, rsaKey, validClaims, "r"),
		"RSA token, EC key":              sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "e"),
		"RSA token, secret of the set":   sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "s"),
		"another key":                    sign(t, jwt.SigningMethodRS256, otherKey, validClaims, "r"),
		"an unknown key id":              sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "x"),
		"expired":                        sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"exp": time.Now().Add(-time.Second).Unix()}), "r"),
		"without expiry":                 sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"exp": nil}), "r"),
		"not yet":                        sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"nbf": tomorrow}), "r"),
		"another issuer":                 sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"iss": "evil"}), "r"),
		"another audience":               sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"aud": "evil"}), "r"),
		"no subject":                     sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"sub": nil}), "r"),
		"empty subject":                  sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"sub": ""}), "r"),
		"long subject":                   sign(t, jwt.SigningMethodRS256, rsaKey, with(jwt.MapClaims{"sub": strings.Repeat("x", 300)}), "r"),
		"changed payload":                head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`)) + "." + good[len(head)+len(payload)+2:],
		"cut off":                        head + "." + payload + ".",
		"not a token":                    "opaque",
		"too long":                       head + "." + strings.Repeat("x", maxToken) + ".x",
		"two dots only":                  "..",
		"header that is not JSON object": base64.RawURLEncoding.EncodeToString([]byte(`[]`)) + ".e30.x",
	} {
		t.Run(name, func(t *testing.T) {
			var id Identity
			err := i.Identify(t.Context(), bearer(token), "192.0.2.1:1", &id)
			var invalid *InvalidError
			if !errors.As(err, &invalid) || invalid.Kind != ByToken {
				t.Fatalf("got %v", err)
			}
			if id.Entity != "ip:192.0.2.1" || id.Tier != "" {
				t.Errorf("got %+v", id)
			}
			if _, ok := id.Claim("sub"); ok {
				t.Error("claims of an invalid token are believed")
			}
		})
	}
	if id := identify(t, i, bearer(good), "192.0.2.1:1"); id.Entity != "user:alice" {
		t.Errorf("the good one: %+v", id)
	}
}

func TestAKeyGoesBeforeAToken(t *testing.T) {
	i := identifier(t, Config{
		Keys: []Key{{Name: "ci", SHA256: hash("s3cret"), Entity: "acme"}},
		JWT:  &JWT{Algorithms: []string{"HS256"}, SecretFile: file(t, []byte(secret))},
	})
	token := sign(t, jwt.SigningMethodHS256, []byte(secret), validClaims, "")
	both := bearer(token)
	both.Set("X-API-Key", "s3cret")
	for want, header := range map[string]http.Header{"acme": both, "user:alice": bearer(token)} {
		if id := identify(t, i, header, "192.0.2.1:1"); id.Entity != want {
			t.Errorf("got %+v, want %s", id, want)
		}
	}
	if id := identify(t, i, bearer("s3cret"), "192.0.2.1:1"); id.Entity != "acme" {
		t.Errorf("a key as bearer beside tokens: %+v", id)
	}
}

func TestATokenInItsOwnHeader(t *testing.T) {
	i := identifier(t, Config{JWT: &JWT{Header: "X-Token", Algorithms: []string{"HS256"}, SecretFile: file(t, []byte(secret))}})
	token := sign(t, jwt.SigningMethodHS256, []byte(secret), validClaims, "")
	for _, value := range []string{token, "Bearer " + token} {
		if id := identify(t, i, http.Header{"X-Token": {value}, "Authorization": {"Bearer other"}}, "192.0.2.1:1"); id.Entity != "user:alice" {
			t.Errorf("got %+v", id)
		}
	}
}

// TestSessionCookies: a session in a cookie is a signed token or a key that is
// looked up. Headers go before it, and two of a name are refused.
func TestSessionCookies(t *testing.T) {
	i := identifier(t, Config{
		KeyCookies: []string{"session"}, Keys: []Key{{Name: "web", SHA256: hash("s3ss"), Entity: "bob"}, {Name: "ci", SHA256: hash("s3cret"), Entity: "acme"}},
		JWT: &JWT{Cookie: "token", Algorithms: []string{"HS256"}, SecretFile: file(t, []byte(secret))},
	})
	token := sign(t, jwt.SigningMethodHS256, []byte(secret), validClaims, "")
	for _, c := range []struct {
		want   string
		header http.Header
	}{
		{"bob", http.Header{"Cookie": {"theme=dark; session=s3ss"}}},
		{"user:alice", http.Header{"Cookie": {"token=" + token}}},
		{"acme", http.Header{"Cookie": {"session=s3ss"}, "X-Api-Key": {"s3cret"}}},
		{"ip:192.0.2.1", http.Header{"Cookie": {"theme=dark"}}},
	} {
		if id := identify(t, i, c.header, "192.0.2.1:1"); id.Entity != c.want {
			t.Errorf("%v: got %+v, want %s", c.header, id, c.want)
		}
	}
	for _, sent := range [][]string{{"session=s3ss; session=other"}, {"session=s3ss", "session=s3ss"}, {"session=unknown"}, {"token=" + token + "x"}} {
		var id Identity
		var invalid *InvalidError
		if err := i.Identify(t.Context(), http.Header{"Cookie": sent}, "192.0.2.1:1", &id); !errors.As(err, &invalid) || id.Entity != "ip:192.0.2.1" {
			t.Errorf("%v: %v, %+v", sent, err, id)
		}
	}
	if m := (Config{KeyCookies: []string{"a b"}, JWT: &JWT{Cookie: "a;b", Algorithms: []string{"HS256"}, SecretFile: "x"}}).Check(); len(m) != 2 {
		t.Errorf("%v", m)
	}
}

// The issuer turns its keys over: a token with a key id that is not known yet
// makes us fetch the set again, but a flood of made-up ids does so once.
func TestAKeySetThatIsFetched(t *testing.T) {
	var fetched atomic.Int32
	var set atomic.Pointer[[]byte]
	publish := func(keys map[string]any) {
		b := keySet(t, keys)
		set.Store(&b)
	}
	publish(map[string]any{"e": ecKey.Public()})
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Write(*set.Load())
	}))
	t.Cleanup(issuer.Close)
	i := identifier(t, Config{JWT: &JWT{Algorithms: []string{"ES256", "RS256"}, JWKSURL: issuer.URL}})
	if id := identify(t, i, bearer(sign(t, jwt.SigningMethodES256, ecKey, validClaims, "e")), "192.0.2.1:1"); id.Entity != "user:alice" {
		t.Errorf("got %+v", id)
	}
	publish(map[string]any{"e": ecKey.Public(), "r": rsaKey.Public()})
	if id := identify(t, i, bearer(sign(t, jwt.SigningMethodRS256, rsaKey, validClaims, "r")), "192.0.2.1:1"); id.Entity != "user:alice" {
		t.Errorf("after the change: %+v", id)
	}
	for range 50 {
		var id Identity
		if err := i.Identify(t.Context(), bearer(sign(t, jwt.SigningMethodES256, ecKey, validClaims, "made-up")), "192.0.2.1:1", &id); err == nil {
			t.Fatal("a made-up key id was accepted")
		}
	}
	if n := fetched.Load(); n > 3 {
		t.Errorf("the set was fetched %d times", n)
	}
}

func TestKeyFilesThatAreNotUsable(t *testing.T) {
	for name, c := range map[string]JWT{
		"short secret":  {Algorithms: []string{"HS256"}, SecretFile: file(t, []byte("short"))},
		"no such file":  {Algorithms: []string{"HS256"}, SecretFile: filepath.Join(t.TempDir(), "none")},
		"not PEM":       {Algorithms: []string{"RS256"}, PublicKeyFile: file(t, []byte("key"))},
		"private key":   {Algorithms: []string{"RS256"}, PublicKeyFile: file(t, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}))},
		"not a set":     {Algorithms: []string{"RS256"}, JWKSFile: file(t, []byte("[]"))},
		"two places":    {Algorithms: []string{"RS256"}, JWKSFile: "a", PublicKeyFile: "b"},
		"mixed":         {Algorithms: []string{"HS256", "RS256"}, SecretFile: file(t, []byte(secret))},
		"no algorithms": {SecretFile: file(t, []byte(secret))},
	} {
		if _, err := Open(t.Context(), Config{JWT: &c}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever is sent as a token, only ours is somebody.
func FuzzToken(f *testing.F) {
	good := sign(f, jwt.SigningMethodHS256, []byte(secret), validClaims, "")
	f.Add(good)
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.")
	f.Add(sign(f, jwt.SigningMethodHS384, []byte(secret), validClaims, ""))
	f.Add(sign(f, jwt.SigningMethodES256, ecKey, validClaims, "x"))
	i := identifier(f, Config{JWT: &JWT{Algorithms: []string{"HS256"}, SecretFile: file(f, []byte(secret))}})
	f.Fuzz(func(t *testing.T, token string) {
		var id Identity
		err := i.Identify(t.Context(), bearer(token), "192.0.2.1:1", &id)
		switch {
		case err == nil && id.Kind == ByToken && id.Entity != "user:alice":
			t.Errorf("%q is %+v", token, id)
		case err != nil && id.Entity != "ip:192.0.2.1", id.Address != "ip:192.0.2.1":
			t.Errorf("%q left %+v", token, id)
		}
	})
}
