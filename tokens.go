package sluice

import (
	"fmt"
	"strconv"
	"strings"
)

// Tokens is an amount, counted in thousandths of a token so that every store
// can keep it as an integer. Write it the way durations are written:
//
//	3 * sluice.Token
type Tokens int64

const (
	// Token is one token: one request, one unit of cost.
	Token Tokens = 1000

	// MaxTokens caps every amount: a limit's numbers, a cost, and a debt.
	// Sums of two stay below 2^53, so they are exact in Lua and JSON too.
	MaxTokens = 1_000_000_000_000 * Token
)

// String writes t in tokens, with a fraction only where there is one.
func (t Tokens) String() string {
	sign := ""
	n := uint64(t)
	if t < 0 {
		sign, n = "-", -uint64(t)
	}
	s := sign + strconv.FormatUint(n/uint64(Token), 10)
	if frac := n % uint64(Token); frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%03d", frac), "0")
	}
	return s
}

// Whole returns the number of whole tokens in t, and 0 for a debt: what response
// headers show.
func (t Tokens) Whole() int64 { return int64(max(t, 0) / Token) }

// MarshalJSON writes t as a JSON number of tokens.
func (t Tokens) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalJSON reads a JSON number of tokens with at most three decimals.
// As everywhere in JSON, null leaves t alone.
func (t *Tokens) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, err := parseTokens(string(b))
	if err != nil {
		return err
	}
	*t = n
	return nil
}
