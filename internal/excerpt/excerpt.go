// Package excerpt shortens text from outside for messages.
package excerpt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Of returns text from outside as a message can show it: the beginning of
// what is long, in quotes if it has characters that cannot be printed.
func Of(s string) string {
	const most = 60
	short := s
	if len(s) > most {
		short = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.ContainsFunc(short, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(short)
	}
	return short
}
