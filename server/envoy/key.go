package envoy

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/sluice-go/sluice"
)

// appendEntity writes which bucket a descriptor uses, as its entries with
// those values that share a counter replaced by their pattern:
//
//	key=value,key=value
//
// Unlike in envoyproxy/ratelimit, which joins all with _, no choice of values
// lets one descriptor pass for another: what separates is escaped inside of
// values.
func appendEntity(b []byte, entries []*entry, shares []string) []byte {
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		value := e.GetValue()
		if len(shares) > 0 && shares[i] != "" {
			value = shares[i]
		}
		b = appendEscaped(b, e.GetKey())
		b = append(b, '=')
		b = appendEscaped(b, value)
	}
	return b
}

func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '=', ',', '~', '%':
			const hex = "0123456789abcdef"
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// keyPart is b as part of a key. What is too long ends in a digest, after a ~,
// which no other part has.
func keyPart(b []byte) string {
	if len(b) <= sluice.MaxKeyPart {
		return string(b)
	}
	sum := sha256.Sum256(b)
	digest := base64.RawURLEncoding.EncodeToString(sum[:])
	return string(b[:sluice.MaxKeyPart-1-len(digest)]) + "~" + digest
}
