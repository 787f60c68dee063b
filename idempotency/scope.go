package idempotency

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/sluice-go/sluice"
)

// The longest parts of a [Scope], in bytes.
const (
	MaxKey    = 255
	MaxName   = 255 // of tenant and route
	MaxMethod = 16
)

// Scope names one record: Key, as Tenant uses it for Method on Route. The
// parts are kept apart all the way into the store.
type Scope struct {
	Tenant string `json:"tenant,omitempty"` // see [Tenant]
	Method string `json:"method"`
	Route  string `json:"route"`
	Key    string `json:"key"`
}

// Validate says what is wrong with s.
func (s *Scope) Validate() error {
	for _, part := range [...]struct {
		field, value string
		least, most  int
	}{
		{"tenant", s.Tenant, 0, MaxName},
		{"method", s.Method, 1, MaxMethod},
		{"route", s.Route, 1, MaxName},
		{"key", s.Key, 1, MaxKey},
	} {
		if n := len(part.value); n < part.least || n > part.most {
			return &sluice.FieldError{
				Field: "idempotency." + part.field, Value: part.value,
				Reason: fmt.Sprintf("must be %d to %d bytes long", part.least, part.most),
			}
		}
	}
	return nil
}

// ID is what stores keep a record under: a digest of its scope. See [Scope.ID].
type ID [sha256.Size]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Fingerprint is a digest of what was asked. Two requests with the same key
// must have the same.
type Fingerprint [sha256.Size]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// MarshalText writes f in hexadecimal.
func (f Fingerprint) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, f[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Fingerprint) UnmarshalText(b []byte) error { return unhex(f[:], b, "fingerprint") }

// Token is a claim's own: whoever has it holds the claim. Each claim draws its
// own, so that a claim that was lost never fits a later record of the same
// key, and one that got no answer can be sent again.
type Token [16]byte

// NewToken draws one.
func NewToken() (t Token) {
	rand.Read(t[:]) //nolint:errcheck // it never fails
	return t
}

func (t Token) String() string { return hex.EncodeToString(t[:]) }

// MarshalText writes t in hexadecimal.
func (t Token) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, t[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Token) UnmarshalText(b []byte) error { return unhex(t[:], b, "token") }

func unhex(to, from []byte, field string) error {
	if len(from) == 2*len(to) {
		if _, err := hex.Decode(to, from); err == nil {
			return nil
		}
	}
	return &sluice.FieldError{
		Field: "idempotency." + field, Value: string(from),
		Reason: fmt.Sprintf("must be %d hexadecimal digits", 2*len(to)),
	}
}
