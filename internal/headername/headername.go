// Package headername compares the names of headers as careless servers do.
package headername

import (
	"net/http"
	"strings"
)

// Dashed returns a name in canonical form with a dash for every character that is
// neither a letter nor a digit: some servers take such names for the same.
func Dashed(name string) string {
	if strings.IndexFunc(name, odd) < 0 {
		return http.CanonicalHeaderKey(name)
	}
	return http.CanonicalHeaderKey(strings.Map(func(c rune) rune {
		if odd(c) {
			return '-'
		}
		return c
	}, name))
}

func odd(c rune) bool {
	return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}
