package dynamodb

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes of every item, and those of the indexes.
const (
	PK  = "PK"
	SK  = "SK"
	TTL = "ttl" // in seconds, after which DynamoDB may delete it; nothing depends on it

	GSI1, GSI1PK, GSI1SK = "GSI1", "GSI1PK", "GSI1SK" // children of a parent
	GSI2, GSI2PK, GSI2SK = "GSI2", "GSI2PK", "GSI2SK" // what there is of a resource
	GSI3, GSI3PK, GSI3SK = "GSI3", "GSI3PK", "GSI3SK" // entities with limits of their own
)

// Item is an item as the SDK has it.
type Item = map[string]types.AttributeValue

// Key is the primary key of an item.
type Key struct{ PK, SK string }

// Item returns k as requests want it.
func (k Key) Item() Item { return Item{PK: S(k.PK), SK: S(k.SK)} }

// KeyOf returns the primary key of an item.
func KeyOf(item Item) Key { return Key{Text(item[PK]), Text(item[SK])} }

// S returns a string as an attribute.
func S(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Text returns the string of an attribute, "" if it is none.
func Text(a types.AttributeValue) string {
	if s, ok := a.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// Scope returns what the partition keys of a namespace begin with.
func Scope(namespace string) string {
	if namespace == "" {
		return ""
	}
	return Escape(namespace) + "/"
}

// CutScope is the inverse of [Scope]: it returns the namespace and the rest of a
// partition key.
func CutScope(pk string) (namespace, rest string, ok bool) {
	scope, rest, found := strings.Cut(pk, "/")
	if !found {
		return "", pk, true
	}
	namespace, ok = Unescape(scope)
	return namespace, rest, ok
}

const hexDigits = "0123456789ABCDEF"

// Escape returns a part of a key, which may have any bytes, as text without the
// separators # and /.
func Escape(part string) string {
	plain := true
	for i := range len(part) {
		plain = plain && isPlain(part[i])
	}
	if plain {
		return part
	}
	var b strings.Builder
	for i := range len(part) {
		if c := part[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

func isPlain(c byte) bool { return c > ' ' && c < 0x7f && c != '#' && c != '/' && c != '%' }

// Unescape is the inverse of [Escape].
func Unescape(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return text, true
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+2 >= len(text) {
				return "", false
			}
			hi, lo := strings.IndexByte(hexDigits, text[i+1]), strings.IndexByte(hexDigits, text[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			c, i = byte(hi<<4|lo), i+2
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// yes is what requests want for true.
var yes = aws.Bool(true)
