package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// Kind is how a caller was identified.
type Kind uint8

// The kinds, from the weakest to the strongest.
const (
	ByAddress Kind = iota
	ByToken        // or named by the program
	ByKey
)

func (k Kind) String() string {
	switch k {
	case ByKey:
		return "key"
	case ByToken:
		return "user"
	}
	return "ip"
}

// Identity is who is calling.
type Identity struct {
	Kind Kind

	// Entity is whose limits apply: the owner of the key, "user:" and the
	// token's subject, or the address.
	Entity string

	// Key is the key itself as an entity, "key:" and its name; "" without.
	Key string

	// Address is the caller's address as an entity: "ip:203.0.113.7" or
	// "ip:2001:db8:1:2::/64". It is never empty: callers without an address
	// share "ip:unknown", and so their limits.
	Address string

	// Client is the caller's full address. It is not valid if the connection
	// has none, such as that of a Unix socket.
	Client netip.Addr

	Tier   string
	Scopes []string

	claims map[string]any
}

// Claim returns a claim of the caller's token as a string, or false if there is no
// token or no such claim with a string, number or truth value. A dotted name
// that is no claim itself leads into nested ones.
func (i *Identity) Claim(name string) (string, bool) { return claimString(i.claims, name) }

// InvalidError reports that a credential was sent and is not valid. It contains
// nothing of the credential itself.
type InvalidError struct {
	Kind   Kind   // ByKey or ByToken
	Reason string // for logs; the caller is not told more than that it is invalid
}

func (e *InvalidError) Error() string {
	what := "API key"
	if e.Kind == ByToken {
		what = "token"
	}
	return fmt.Sprintf("the %s is not valid: %s", what, e.Reason)
}

// Verified is what is known about a valid API key.
type Verified struct {
	// Namespace is the one that the key is for; "" if it is for any.
	Namespace string

	Key    string // "key:" and its name
	Entity string // whose key it is
	Tier   string
	Scopes []string
}

// ErrNoKey is returned by a [Verifier] for a key that is unknown, expired or
// revoked.
var ErrNoKey = errors.New("no such key")

// Verifier looks up an API key. It returns [ErrNoKey] if the key is not
// valid; any other error means that it could not tell.
type Verifier func(ctx context.Context, key string) (Verified, error)

// Option configures an [Identifier].
type Option func(*Identifier)

// WithVerifier asks v about keys that the configuration does not name.
func WithVerifier(v Verifier) Option { return func(i *Identifier) { i.verify = v } }

// WithLog sets where key sets that cannot be fetched are logged. The default is
// slog.Default.
func WithLog(log *slog.Logger) Option { return func(i *Identifier) { i.log = log } }

// Identifier identifies callers. It is safe for concurrent use.
type Identifier struct {
	keyHeaders []string // canonical
	keyCookies []string
	keys       map[[32]byte]staticKey
	verify     Verifier
	tokens     *tokens
	addresses  addresses
	log        *slog.Logger
}

// Open returns an identifier for config. It reads the files that config names
// and fetches its key set, again and again until ctx ends; a key set that
// cannot be fetched now does not keep it from starting.
func Open(ctx context.Context, config Config, options ...Option) (*Identifier, error) {
	if m := config.Check(); len(m) > 0 {
		errs := make([]error, len(m))
		for i := range m {
			errs[i] = &m[i]
		}
		return nil, errors.Join(errs...)
	}
	config = config.WithDefaults()
	i := &Identifier{log: slog.Default()}
	for _, o := range options {
		o(i)
	}
	for _, h := range config.KeyHeaders {
		i.keyHeaders = append(i.keyHeaders, http.CanonicalHeaderKey(h))
	}
	i.keyCookies = config.KeyCookies
	i.keys = staticKeys(config.Keys)
	i.addresses.init(&config.Address)
	if config.JWT != nil {
		var err error
		if i.tokens, err = newTokens(ctx, config.JWT, i.log); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Identify fills in who sent these headers from that remote address (host
// and port, as in [http.Request.RemoteAddr]). After an error, the identity is
// that of the address alone, so that the attempt can be limited.
func (i *Identifier) Identify(ctx context.Context, header http.Header, remote string, id *Identity) error {
	*id = Identity{}
	i.addresses.identify(header, remote, id)
	if i.keys == nil && i.verify == nil && i.tokens == nil {
		return nil // what else is sent is for somebody else
	}
	err := i.credentials(ctx, header, id)
	if err != nil {
		*id = Identity{Entity: id.Address, Address: id.Address, Client: id.Client}
	}
	return err
}

// Named fills in a caller whom the program has named itself, as a user, with
// the address as [Identifier.Identify] finds it. A name too long for a key is
// replaced by its hash.
func (i *Identifier) Named(entity, tier string, header http.Header, remote string, id *Identity) {
	*id = Identity{}
	i.addresses.identify(header, remote, id)
	if len(entity) > sluice.MaxKeyPart {
		sum := sha256.Sum256([]byte(entity))
		entity = "sha256:" + hex.EncodeToString(sum[:])
	}
	id.Kind, id.Entity, id.Tier = ByToken, entity, tier
}

// credentials looks for a key, then for a token.
func (i *Identifier) credentials(ctx context.Context, header http.Header, id *Identity) error {
	bearer, err := bearerToken(header)
	if err != nil {
		return err
	}
	if i.keys != nil || i.verify != nil {
		for _, name := range i.keyHeaders {
			key := bearer
			if name != "Authorization" {
				if key, err = only(header[name], name); err != nil {
					return err
				}
			} else if i.tokens != nil && i.tokens.header == name && strings.Count(key, ".") == 2 {
				continue // that is a token
			}
			if key != "" {
				return i.key(ctx, key, id)
			}
		}
		for _, name := range i.keyCookies {
			key, err := cookie(header, name)
			if err != nil {
				return err
			}
			if key != "" {
				return i.key(ctx, key, id)
			}
		}
	}
	if i.tokens == nil {
		return nil
	}
	raw := bearer
	if i.tokens.header != "Authorization" {
		if raw, err = only(header[i.tokens.header], i.tokens.header); err != nil {
			return err
		}
		if token, ok := afterBearer(raw); ok {
			raw = token
		}
	}
	if raw == "" && i.tokens.cookie != "" {
		if raw, err = cookie(header, i.tokens.cookie); err != nil {
			return err
		}
	}
	if raw == "" {
		return nil
	}
	return i.tokens.identify(raw, id)
}

// cookie is the value of a cookie, which must not be sent twice either. "" if
// it was not sent.
func cookie(header http.Header, name string) (string, error) {
	if len(header["Cookie"]) == 0 {
		return "", nil
	}
	var values []string
	for _, c := range (&http.Request{Header: header}).CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return only(values, "the cookie "+name)
}

// only is the one value of a header that must not be sent twice: whoever
// reads it after us might choose the other.
func only(values []string, name string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", &InvalidError{Kind: ByKey, Reason: name + " was sent more than once"}
}

const bearerScheme = "Bearer"

// bearerToken is what follows "Bearer" in Authorization. Other schemes are
// not ours.
func bearerToken(header http.Header) (string, error) {
	value, err := only(header["Authorization"], "Authorization")
	if err != nil {
		return "", err
	}
	token, _ := afterBearer(value)
	return token, nil
}

// afterBearer is what follows "Bearer" and a space, or a tab: some servers
// take that for a space, and then it must not look like no credential here.
func afterBearer(value string) (string, bool) {
	n := len(bearerScheme)
	if len(value) <= n || !strings.EqualFold(value[:n], bearerScheme) || value[n] != ' ' && value[n] != '\t' {
		return "", false
	}
	return strings.Trim(value[n:], " \t"), true
}

// valid reports whether the key has not expired.
func (k *staticKey) valid(now time.Time) bool { return k.expires.IsZero() || now.Before(k.expires) }

// HasScope reports whether the caller's key or token has a scope.
func (i *Identity) HasScope(scope string) bool { return slices.Contains(i.Scopes, scope) }
