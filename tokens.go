package sluice

import (
	"cmp"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Amount is a number of tokens with at most three decimals: what a take costs,
// what a limit allows, what is left of it. [Tokens] makes one of whole tokens:
//
//	Cost: sluice.Tokens(3)
//
// It is a struct so that a bare number is never taken for one. The zero Amount
// is no tokens.
type Amount struct{ thousandths int64 }

const (
	// Token is how many thousandths a token has. Stores count in thousandths,
	// so that they can keep every amount as an integer.
	Token int64 = 1000

	// MaxThousandths caps every amount, in thousandths: a limit's numbers, a
	// cost, and a debt. Sums of two stay below 2^53, so they are exact in Lua
	// and JSON too.
	MaxThousandths = 1_000_000_000_000 * Token
)

// maxAmount is the largest amount, for messages.
var maxAmount = Thousandths(MaxThousandths)

// Tokens returns an amount of n whole tokens. One above what any limit can have
// becomes an amount that is just above it, so that it is refused.
func Tokens(n int64) Amount {
	if hi, lo := bits.Mul64(uint64(max(n, -n)), uint64(Token)); hi != 0 || lo > uint64(MaxThousandths) {
		if n < 0 {
			return Amount{-MaxThousandths - 1}
		}
		return Amount{MaxThousandths + 1}
	}
	return Amount{n * Token}
}

// Thousandths returns an amount of n thousandths of a token.
func Thousandths(n int64) Amount { return Amount{n} }

// Thousandths returns a in thousandths of a token.
func (a Amount) Thousandths() int64 { return a.thousandths }

// Whole returns the number of whole tokens in a, and 0 for a debt: what response
// headers show.
func (a Amount) Whole() int64 { return max(a.thousandths, 0) / Token }

// IsZero reports whether a is no tokens.
func (a Amount) IsZero() bool { return a.thousandths == 0 }

// Add returns a + b.
func (a Amount) Add(b Amount) Amount { return Amount{a.thousandths + b.thousandths} }

// Sub returns a - b.
func (a Amount) Sub(b Amount) Amount { return Amount{a.thousandths - b.thousandths} }

// Compare returns -1 if a is less than b, 0 if they are equal, and +1 if a is
// greater.
func (a Amount) Compare(b Amount) int { return cmp.Compare(a.thousandths, b.thousandths) }

// String writes a in tokens, with a fraction only where there is one.
func (a Amount) String() string {
	sign := ""
	n := uint64(a.thousandths)
	if a.thousandths < 0 {
		sign, n = "-", -n
	}
	s := sign + strconv.FormatUint(n/uint64(Token), 10)
	if frac := n % uint64(Token); frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%03d", frac), "0")
	}
	return s
}

// MarshalJSON writes a as a JSON number of tokens.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a JSON number of tokens with at most three decimals.
// As everywhere in JSON, null leaves a alone.
func (a *Amount) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	n, err := parseTokens(string(b))
	if err != nil {
		return err
	}
	*a = n
	return nil
}
