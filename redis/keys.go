package redis

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice"
)

// The number is the version of the layout: of these names and of what the
// script keeps under them. Another layout gets another number, and so its own
// keys.
const (
	prefix  = "sluice:1:"
	channel = "sluice:1:room"
)

// recordKey is the key of the buckets of one entity and resource:
//
//	sluice:1:{namespace|entity|resource}
//
// The braces are Redis Cluster's hash tag, so that whatever belongs to the
// same entity and resource is in the same slot.
func recordKey(k *sluice.Key) string {
	var room [160]byte
	b := append(room[:0], prefix+"{"...)
	b = appendEscaped(b, k.Namespace)
	b = append(b, '|')
	b = appendEscaped(b, k.Entity)
	b = append(b, '|')
	b = appendEscaped(b, k.Resource)
	b = append(b, '}')
	return string(b)
}

// receiptKey is the key of a lease or request id. It is in a slot of its own;
// partKey is one in the slot of a record, for takes over several slots.
func receiptKey(id string) string {
	b := append(make([]byte, 0, 64), prefix+"id:{"...)
	return string(append(appendEscaped(b, id), '}'))
}

func partKey(record, id string) string {
	b := append(make([]byte, 0, len(record)+40), record...)
	return string(appendEscaped(append(b, "id:"...), id))
}

// sameRecord reports whether two buckets are kept under one key.
func sameRecord(a, b *sluice.Key) bool {
	return a.Entity == b.Entity && a.Resource == b.Resource && a.Namespace == b.Namespace
}

// parseRecordKey reads a record's key. ok is false for any other key.
func parseRecordKey(key string) (k sluice.Key, ok bool) {
	tag, ok := strings.CutPrefix(key, prefix+"{")
	if !ok {
		return k, false
	}
	if tag, ok = strings.CutSuffix(tag, "}"); !ok {
		return k, false
	}
	parts := strings.Split(tag, "|")
	if len(parts) != 3 {
		return k, false
	}
	for i, field := range []*string{&k.Namespace, &k.Entity, &k.Resource} {
		if *field, ok = unescape(parts[i]); !ok {
			return k, false
		}
	}
	return k, true
}

// pattern matches the keys of the records that q asks for, and some others. It
// needs no escaping: what is special in a pattern never stands in a key.
func pattern(q *sluice.Query) string {
	part := func(s string) string {
		if s == "" {
			return "*"
		}
		return string(appendEscaped(nil, s))
	}
	return prefix + "{" + string(appendEscaped(nil, q.Namespace)) + "|" + part(q.Entity) + "|" + part(q.Resource) + "}"
}

// plain are the bytes that stand for themselves in a key. All others are
// written as % and two digits, among them the separator, the braces of the
// hash tag, and what a pattern takes for something else.
var plain = func() (set [256]bool) {
	for c := range set {
		set[c] = c > ' ' && c < 0x7f && !strings.ContainsRune("%|{}*?[]^\\\"'", rune(c))
	}
	return set
}()

func appendEscaped(b []byte, s string) []byte {
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

func unescape(s string) (string, bool) {
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
