package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-go/sluice"
)

const (
	maxToken   = 8 << 10 // bytes of a token
	maxKeyFile = 1 << 20 // bytes of a file or answer with keys
	minSecret  = 32
)

// tokens verifies signed tokens.
type tokens struct {
	header  string // canonical
	cookie  string // "" for none
	parser  *jwt.Parser
	key     jwt.Keyfunc
	subject string
	tier    string
	scope   string
}

func newTokens(ctx context.Context, c *JWT, log *slog.Logger) (*tokens, error) {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(c.Algorithms),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(c.Leeway),
		jwt.WithJSONNumber(),
	}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if len(c.Audience) > 0 {
		options = append(options, jwt.WithAudience(c.Audience...))
	}
	t := &tokens{
		header: http.CanonicalHeaderKey(c.Header), cookie: c.Cookie, parser: jwt.NewParser(options...),
		subject: c.SubjectClaim, tier: c.TierClaim, scope: c.ScopeClaim,
	}
	var err error
	switch {
	case c.SecretFile != "":
		t.key, err = secretKey(c.SecretFile)
	case c.PublicKeyFile != "":
		t.key, err = publicKey(c.PublicKeyFile)
	case c.JWKSFile != "":
		t.key, err = keySetFile(c.JWKSFile)
	default:
		t.key, err = keySetURL(ctx, c.JWKSURL, log)
	}
	return t, err
}

func (t *tokens) identify(raw string, id *Identity) error {
	if len(raw) > maxToken {
		return &InvalidError{Kind: ByToken, Reason: "it is too long"}
	}
	claims := jwt.MapClaims{}
	token, err := t.parser.ParseWithClaims(raw, claims, t.key)
	if err != nil {
		return &InvalidError{Kind: ByToken, Reason: reason(err)}
	}
	if _, ok := token.Header["crit"]; ok { // RFC 7515: whoever does not know what it names must refuse it
		return &InvalidError{Kind: ByToken, Reason: "it has extensions that must be understood, and none are"}
	}
	subject, ok := claimString(claims, t.subject)
	if !ok || subject == "" {
		return &InvalidError{Kind: ByToken, Reason: "it has no " + t.subject}
	}
	if len(subject) > maxName {
		return &InvalidError{Kind: ByToken, Reason: fmt.Sprintf("its %s is longer than %d bytes", t.subject, maxName)}
	}
	id.Kind, id.Entity, id.claims = ByToken, "user:"+subject, claims
	id.Tier, _ = claimString(claims, t.tier)
	if len(id.Tier) > sluice.MaxKeyPart {
		id.Tier = ""
	}
	id.Scopes = scopes(claims, t.scope)
	return nil
}

// reason says in a few words why a token is not valid. The library's own
// words may quote the token.
func reason(err error) string {
	for _, r := range [...]struct {
		err  error
		text string
	}{
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "another issuer"},
		{jwt.ErrTokenInvalidAudience, "another audience"},
		{jwt.ErrTokenRequiredClaimMissing, "a claim is missing"},
		{jwt.ErrTokenMalformed, "it is malformed"},
		{jwt.ErrTokenUnverifiable, "there is no key for it"},
		{jwt.ErrTokenSignatureInvalid, "its signature or algorithm is not accepted"},
	} {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return "it does not verify"
}

// scopes are those of a claim that is a list, or a text divided by spaces.
func scopes(claims map[string]any, name string) (all []string) {
	switch v := claim(claims, name).(type) {
	case string:
		return strings.Fields(v)
	case []any:
		for _, one := range v {
			if s, ok := one.(string); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

// claim is a claim, or nil if there is none. A name that is not itself a claim
// and has dots leads into nested claims.
func claim(claims map[string]any, name string) any {
	v, ok := claims[name]
	for !ok {
		outer, inner, dotted := strings.Cut(name, ".")
		nested, isMap := claims[outer].(map[string]any)
		if !dotted || !isMap {
			return nil
		}
		claims, name = nested, inner
		v, ok = claims[name]
	}
	return v
}

// claimString is a claim as a string.
func claimString(claims map[string]any, name string) (string, bool) {
	switch v := claim(claims, name).(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// secretKey gives the secret to HMAC alone, whatever else the parser accepts.
func secretKey(file string) (jwt.Keyfunc, error) {
	b, err := readKeys("jwt.secret_file", file)
	if err != nil {
		return nil, err
	}
	secret := []byte(strings.TrimRight(string(b), "\r\n"))
	if len(secret) < minSecret {
		return nil, &sluice.FieldError{Field: "jwt.secret_file", Value: file, Reason: fmt.Sprintf("the secret must be at least %d bytes long", minSecret)}
	}
	return func(t *jwt.Token) (any, error) {
		if _, ok := t.Method.(*jwt.SigningMethodHMAC); !ok {
			return nil, jwt.ErrTokenSignatureInvalid
		}
		return secret, nil
	}, nil
}

func publicKey(file string) (jwt.Keyfunc, error) {
	b, err := readKeys("jwt.public_key_file", file)
	if err != nil {
		return nil, err
	}
	bad := &sluice.FieldError{Field: "jwt.public_key_file", Value: file, Reason: "must have one RSA, ECDSA or Ed25519 public key or certificate in PEM form"}
	block, rest := pem.Decode(b)
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, bad
	}
	var key crypto.PublicKey
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	default:
		return nil, bad
	}
	if err != nil {
		return nil, errors.Join(bad, err)
	}
	switch key.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return asymmetric(func(*jwt.Token) (any, error) { return key, nil }), nil
	}
	return nil, bad
}

func keySetFile(file string) (jwt.Keyfunc, error) {
	b, err := readKeys("jwt.jwks_file", file)
	if err != nil {
		return nil, err
	}
	set, err := keyfunc.NewJWKSetJSON(b)
	if err != nil {
		return nil, errors.Join(&sluice.FieldError{Field: "jwt.jwks_file", Value: file, Reason: "must be a JSON Web Key Set"}, err)
	}
	return asymmetric(set.Keyfunc), nil
}

// asymmetric refuses to hand keys of a public set to HMAC, and secrets that
// stand in such a set to anything: else whoever knows the public key could
// sign with it.
func asymmetric(key jwt.Keyfunc) jwt.Keyfunc {
	return func(t *jwt.Token) (any, error) {
		if _, ok := t.Method.(*jwt.SigningMethodHMAC); ok {
			return nil, jwt.ErrTokenSignatureInvalid
		}
		k, err := key(t)
		if _, secret := k.([]byte); secret {
			return nil, jwt.ErrTokenUnverifiable
		}
		return k, err
	}
}

func readKeys(field, file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, &sluice.FieldError{Field: field, Value: file, Reason: err.Error()}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil || len(b) > maxKeyFile {
		return nil, &sluice.FieldError{Field: field, Value: file, Reason: fmt.Sprintf("must be a readable file of at most %d bytes", maxKeyFile)}
	}
	return b, nil
}
