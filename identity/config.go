package identity

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// Config says which credentials are accepted and which proxies are trusted.
// The zero Config knows callers by the address of their connection.
type Config struct {
	// KeyHeaders are where an API key may stand, in order; in Authorization
	// it follows "Bearer". Nil means X-API-Key and Authorization.
	KeyHeaders []string `yaml:"key_headers,omitempty"`

	// KeyCookies are cookies whose values are API keys, for sessions that a
	// catalog knows. A key in a header goes before them. Empty reads none.
	KeyCookies []string `yaml:"key_cookies,omitempty"`

	// Keys are API keys known from here. A catalog may know more.
	Keys []Key `yaml:"keys,omitempty"`

	// JWT accepts signed tokens. Nil accepts none.
	JWT *JWT `yaml:"jwt,omitempty"`

	// Address is how a caller's address is found and grouped.
	Address Address `yaml:"address,omitempty"`
}

// Key is an API key that a configuration names. The key itself is not in it,
// only its hash.
type Key struct {
	// Name is how the key is called in buckets, logs and metrics.
	Name string `yaml:"name"`

	// SHA256 is the hash of the key in hexadecimal: printf %s KEY | sha256sum
	SHA256 string `yaml:"sha256"`

	// Entity is whose key it is. Several keys of one entity share its
	// limits. Empty means the key stands for itself, as "key:" and its name.
	Entity string `yaml:"entity,omitempty"`

	// Tier is the plan of whoever has the key.
	Tier string `yaml:"tier,omitempty"`

	// Scopes are what its holder may do, for endpoints that demand scopes.
	Scopes []string `yaml:"scopes,omitempty"`

	// Expires is when it stops being valid. The zero time means never.
	Expires time.Time `yaml:"expires,omitempty"`
}

// JWT says which signed tokens are accepted. Exactly one of the places for
// keys must be given. A shared secret goes with HMAC algorithms and public
// keys with the others, never both, so that a token cannot choose how a key
// is used.
type JWT struct {
	// Header is where the token stands, with or without "Bearer" before it.
	// Empty means Authorization, which needs the "Bearer".
	Header string `yaml:"header,omitempty"`

	// Cookie is a cookie that may have the token, for sessions of browsers. A
	// token in the header goes before it. Empty reads none.
	Cookie string `yaml:"cookie,omitempty"`

	// Algorithms that may sign: HS256, HS384, HS512 with a secret, or any of
	// RS256 to RS512, PS256 to PS512, ES256 to ES512 and EdDSA with public
	// keys.
	Algorithms []string `yaml:"algorithms"`

	// SecretFile has the shared secret, at least 32 bytes; a final line
	// break is not part of it.
	SecretFile string `yaml:"secret_file,omitempty"`

	// PublicKeyFile is a PEM file with one public key.
	PublicKeyFile string `yaml:"public_key_file,omitempty"`

	// JWKSFile is a JSON Web Key Set.
	JWKSFile string `yaml:"jwks_file,omitempty"`

	// JWKSURL is where to fetch a JSON Web Key Set, hourly and when a token
	// names a key that is not known, at most every 30 s.
	JWKSURL string `yaml:"jwks_url,omitempty"`

	// Issuer must have issued the token. Empty accepts any.
	Issuer string `yaml:"issuer,omitempty"`

	// Audience must have one of these in it. Empty accepts any.
	Audience []string `yaml:"audience,omitempty"`

	// Leeway is by how much clocks may differ. At most 10 min.
	Leeway time.Duration `yaml:"leeway,omitempty"`

	// SubjectClaim names the user. Empty means sub.
	SubjectClaim string `yaml:"subject_claim,omitempty"`

	// TierClaim names the plan. Empty means tier; a token may lack it.
	TierClaim string `yaml:"tier_claim,omitempty"`

	// ScopeClaim has the scopes, as a list or divided by spaces. Empty means
	// scope; a token may lack it.
	ScopeClaim string `yaml:"scope_claim,omitempty"`
}

// Address is how a caller's address is found and grouped.
type Address struct {
	// TrustedProxies are the networks whose word on a client's address is
	// taken. Empty trusts nobody: the connection's address counts.
	TrustedProxies []string `yaml:"trusted_proxies,omitempty"`

	// Header is the one that the trusted proxies write: X-Forwarded-For (the
	// default), Forwarded or X-Real-IP. It is one and not all, because a
	// proxy passes on what it does not know, as the client sent it.
	Header string `yaml:"header,omitempty"`

	// IPv4Prefix and IPv6Prefix are how many bits of an address are one
	// caller. 0 means 32 and 64: a single IPv6 customer has at least a /64.
	IPv4Prefix int `yaml:"ipv4_prefix,omitempty"`
	IPv6Prefix int `yaml:"ipv6_prefix,omitempty"`
}

// The headers a client's address may stand in.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded"
	XRealIP       = "X-Real-Ip" // as net/http spells it
)

const (
	maxKeys    = 10_000
	maxProxies = 1_000
	maxLeeway  = 10 * time.Minute
	maxName    = 200 // leaves room for the prefix of an entity
)

// WithDefaults returns c with all defaults filled in.
func (c Config) WithDefaults() Config {
	if c.KeyHeaders == nil {
		c.KeyHeaders = []string{"X-API-Key", "Authorization"}
	}
	if c.JWT != nil {
		j := *c.JWT
		if j.Header == "" {
			j.Header = "Authorization"
		}
		if j.SubjectClaim == "" {
			j.SubjectClaim = "sub"
		}
		if j.TierClaim == "" {
			j.TierClaim = "tier"
		}
		if j.ScopeClaim == "" {
			j.ScopeClaim = "scope"
		}
		c.JWT = &j
	}
	a := &c.Address
	if a.Header == "" {
		a.Header = XForwardedFor
	}
	if a.IPv4Prefix == 0 {
		a.IPv4Prefix = 32
	}
	if a.IPv6Prefix == 0 {
		a.IPv6Prefix = 64
	}
	return c
}

// Check lists everything that is wrong with c. It reads no files.
func (c Config) Check() []sluice.FieldError {
	var m mistakes
	c = c.WithDefaults()
	for i, h := range c.KeyHeaders {
		if !token(h) {
			m.add(fmt.Sprintf("key_headers[%d]", i), h, "must be the name of a header, such as X-API-Key")
		}
	}
	for i, name := range c.KeyCookies {
		if !token(name) {
			m.add(fmt.Sprintf("key_cookies[%d]", i), name, "must be the name of a cookie, such as session")
		}
	}
	m.keys(c.Keys)
	if c.JWT != nil {
		m.jwt(c.JWT)
	}
	m.address(&c.Address)
	return m
}

type mistakes []sluice.FieldError

func (m *mistakes) add(field string, value any, reason string) {
	*m = append(*m, sluice.FieldError{Field: field, Value: value, Reason: reason})
}

func (m *mistakes) keys(keys []Key) {
	if len(keys) > maxKeys {
		m.add("keys", len(keys), fmt.Sprintf("must be at most %d; a catalog has room for more", maxKeys))
		return
	}
	names, hashes := map[string]bool{}, map[string]bool{}
	for i := range keys {
		k, at := &keys[i], fmt.Sprintf("keys[%d]", i)
		hash := strings.ToLower(k.SHA256)
		if k.Name == "" || len(k.Name) > maxName {
			m.add(at+".name", k.Name, fmt.Sprintf("must be 1 to %d bytes long", maxName))
		} else if names[k.Name] {
			m.add(at+".name", k.Name, "is the name of another key, too")
		}
		if b, err := hex.DecodeString(hash); err != nil || len(b) != 32 {
			m.add(at+".sha256", k.SHA256, "must be the SHA-256 hash of the key: 64 hexadecimal digits")
		} else if hashes[hash] {
			m.add(at+".sha256", k.SHA256, "is the hash of another key, too")
		}
		if len(k.Entity) > sluice.MaxKeyPart {
			m.add(at+".entity", k.Entity, fmt.Sprintf("must be at most %d bytes long", sluice.MaxKeyPart))
		}
		names[k.Name], hashes[hash] = true, true
	}
}

var (
	hmacAlgorithms   = []string{"HS256", "HS384", "HS512"}
	publicAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)

func (j *JWT) places() (set []string) {
	for _, p := range [...]struct{ name, value string }{
		{"secret_file", j.SecretFile}, {"public_key_file", j.PublicKeyFile}, {"jwks_file", j.JWKSFile}, {"jwks_url", j.JWKSURL},
	} {
		if p.value != "" {
			set = append(set, p.name)
		}
	}
	return set
}

func (m *mistakes) jwt(j *JWT) {
	places := j.places()
	if len(places) != 1 {
		m.add("jwt", strings.Join(places, ", "), "needs exactly one of secret_file, public_key_file, jwks_file and jwks_url")
	}
	if len(j.Algorithms) == 0 {
		m.add("jwt.algorithms", "[]", "must name what may sign, such as RS256")
	}
	for i, a := range j.Algorithms {
		at := fmt.Sprintf("jwt.algorithms[%d]", i)
		switch {
		case slices.Contains(hmacAlgorithms, a):
			if j.SecretFile == "" {
				m.add(at, a, "needs a secret_file; public keys never verify it")
			}
		case slices.Contains(publicAlgorithms, a):
			if j.SecretFile != "" {
				m.add(at, a, "needs public keys; a shared secret goes with HS256, HS384 and HS512")
			}
		default:
			m.add(at, a, "must be one of "+strings.Join(append(slices.Clone(hmacAlgorithms), publicAlgorithms...), ", "))
		}
	}
	if !token(j.Header) {
		m.add("jwt.header", j.Header, "must be the name of a header, such as Authorization")
	}
	if j.Cookie != "" && !token(j.Cookie) {
		m.add("jwt.cookie", j.Cookie, "must be the name of a cookie, such as session")
	}
	if j.JWKSURL != "" {
		if u, err := url.Parse(j.JWKSURL); err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
			m.add("jwt.jwks_url", j.JWKSURL, "must be an https address (http only on this machine): whoever can change the keys can be anybody")
		}
	}
	if j.Leeway < 0 || j.Leeway > maxLeeway {
		m.add("jwt.leeway", j.Leeway, fmt.Sprintf("must be between 0 and %s", maxLeeway))
	}
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (m *mistakes) address(a *Address) {
	if len(a.TrustedProxies) > maxProxies {
		m.add("address.trusted_proxies", len(a.TrustedProxies), fmt.Sprintf("must be at most %d", maxProxies))
	}
	for i, s := range a.TrustedProxies {
		if _, err := parsePrefix(s); err != nil {
			m.add(fmt.Sprintf("address.trusted_proxies[%d]", i), s, "must be a network such as 10.0.0.0/8, or an address")
		}
	}
	switch http.CanonicalHeaderKey(a.Header) {
	case XForwardedFor, Forwarded, XRealIP:
	default:
		m.add("address.header", a.Header, "must be X-Forwarded-For, Forwarded or X-Real-IP")
	}
	if a.IPv4Prefix < 1 || a.IPv4Prefix > 32 {
		m.add("address.ipv4_prefix", a.IPv4Prefix, "must be between 1 and 32")
	}
	if a.IPv6Prefix < 1 || a.IPv6Prefix > 128 {
		m.add("address.ipv6_prefix", a.IPv6Prefix, "must be between 1 and 128")
	}
}

// parsePrefix reads a network, or an address as a network of one. A prefix
// of IPv4 written as IPv6 means the IPv4 network, as addresses are compared
// without that mapping.
func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, err
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("%s mixes IPv4 and IPv6", s)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 127 || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}
