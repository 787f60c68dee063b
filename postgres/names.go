package postgres

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Keys and ids are any bytes, but PostgreSQL's text is valid UTF-8 without
// zero bytes. Names that are neither are written in hexadecimal after a
// backslash; so are those that begin with a backslash themselves, so that no
// two names are written alike. All others stay readable.

// Text returns a name as it is stored.
func Text(name string) string {
	if plainText(name) {
		return name
	}
	return `\` + hex.EncodeToString([]byte(name))
}

func plainText(name string) bool {
	if name == "" {
		return true
	}
	return name[0] != '\\' && utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

// Untext returns the name that [Text] wrote. What Text did not write is returned
// as it is.
func Untext(s string) string {
	if s == "" || s[0] != '\\' {
		return s
	}
	name, err := hex.DecodeString(s[1:])
	if err != nil {
		return s
	}
	return string(name)
}
