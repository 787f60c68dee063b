package redis

import (
	"fmt"
	"strings"
)

// Prefix begins the names of all keys and channels. The number is the version of
// the layout: of these names and of what scripts keep under them. Another layout
// gets another number, and so its own keys.
const Prefix = "sluice:1:"

// plain are the bytes that stand for themselves in a key. All others are
// written as % and two digits, among them the separator, the braces of the
// hash tag, and what a pattern takes for something else.
var plain = func() (set [256]bool) {
	for c := range set {
		set[c] = c > ' ' && c < 0x7f && !strings.ContainsRune("%|{}*?[]^\\\"'", rune(c))
	}
	return set
}()

// AppendEscaped appends s to a key, with everything escaped that means something
// in a key or in a pattern.
func AppendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			return appendEscapedSlowly(append(b, s[:i]...), s[i:])
		}
	}
	return append(b, s...)
}

func appendEscapedSlowly(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02x", c)
		}
	}
	return b
}

// Unescape returns what [AppendEscaped] wrote. ok is false for anything else.
func Unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return b.String(), true
}

const hexDigits = "0123456789abcdef"
