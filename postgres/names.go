package postgres

import (
	"cmp"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/sluice-go/sluice"
)

// Keys and ids are any bytes, but PostgreSQL's text is valid UTF-8 without
// zero bytes. Names that are neither are written in hexadecimal after a
// backslash; so are those that begin with a backslash themselves, so that no
// two names are written alike. All others stay readable.

func text(name string) string {
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

// untext is the name that text wrote. What it did not write is answered as it
// stands.
func untext(s string) string {
	if s == "" || s[0] != '\\' {
		return s
	}
	name, err := hex.DecodeString(s[1:])
	if err != nil {
		return s
	}
	return string(name)
}

// rowKey is a key as it is in the table.
type rowKey struct{ namespace, entity, resource, limit string }

func rowKeyOf(k *sluice.Key) rowKey {
	return rowKey{text(k.Namespace), text(k.Entity), text(k.Resource), text(k.Limit)}
}

func (k *rowKey) key() sluice.Key {
	return sluice.Key{
		Namespace: untext(k.namespace), Entity: untext(k.entity),
		Resource: untext(k.resource), Limit: untext(k.limit),
	}
}

// compare is the order of the table's primary key, in which buckets are
// locked by everybody.
func (k *rowKey) compare(l *rowKey) int {
	return cmp.Or(
		strings.Compare(k.namespace, l.namespace),
		strings.Compare(k.entity, l.entity),
		strings.Compare(k.resource, l.resource),
		strings.Compare(k.limit, l.limit),
	)
}
