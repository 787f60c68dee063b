package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"

	"github.com/sluice-go/sluice"
)

// Token is a secret that gives a role in all namespaces: RoleRead, RoleService
// or RoleAdmin. API keys of the catalog have the roles of their scopes
// sluice:take, sluice:read, sluice:service and sluice:admin, in their own
// namespace.
type Token struct {
	Name   string // for the audit log
	Secret string
	Role   Role
}

// MinSecret is the length of the shortest secret of a token, in bytes.
const MinSecret = 16

// TokenList is tokens that can be replaced while a server runs. The zero
// TokenList is empty.
type TokenList struct{ known atomic.Pointer[[]knownToken] }

// Set replaces the tokens. If one of them is not valid, nothing changes.
func (l *TokenList) Set(tokens []Token) error {
	known, err := knowTokens(tokens)
	if err == nil {
		l.known.Store(&known)
	}
	return err
}

// knownToken has the hash of a secret: hashes have one length, so comparing
// them tells nothing of the secret's.
type knownToken struct {
	sum    [sha256.Size]byte
	caller *caller
}

func knowTokens(tokens []Token) (known []knownToken, err error) {
	for _, t := range tokens {
		if len(t.Secret) < MinSecret || !t.Role.general() || t.Name == "" {
			return nil, &sluice.FieldError{Field: "tokens", Value: t.Name, Reason: "a token needs a name, a secret of at least 16 bytes, and the role read, service or admin"}
		}
		known = append(known, knownToken{sha256.Sum256([]byte(t.Secret)), &caller{name: t.Name, role: t.Role.full()}})
	}
	return known, nil
}

// find returns who has a token, or nil.
func (d *doorman) find(secret string) (found *caller) {
	sum := sha256.Sum256([]byte(secret))
	look := func(tokens []knownToken) {
		for i := range tokens {
			if t := &tokens[i]; subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
				found = t.caller
			}
		}
	}
	look(d.tokens)
	if named := d.named.known.Load(); named != nil {
		look(*named)
	}
	return found
}
