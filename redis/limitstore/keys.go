package limitstore

import (
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// channel is where room is announced.
const channel = redis.Prefix + "room"

// recordKey is the key of the buckets of one entity and resource:
//
//	sluice:1:{namespace|entity|resource}
//
// The braces are Redis Cluster's hash tag, so that whatever belongs to the
// same entity and resource is in the same slot.
func recordKey(k *sluice.Key) string {
	var room [160]byte
	b := append(room[:0], redis.Prefix+"{"...)
	b = redis.AppendEscaped(b, k.Namespace)
	b = append(b, '|')
	b = redis.AppendEscaped(b, k.Entity)
	b = append(b, '|')
	b = redis.AppendEscaped(b, k.Resource)
	b = append(b, '}')
	return string(b)
}

const receiptPrefix = redis.Prefix + "id:{"

// receiptKey is the key of a lease or request id. It is in a slot of its own;
// partKey is one in the slot of a record, for takes over several slots.
func receiptKey(id string) string {
	b := append(make([]byte, 0, 64), receiptPrefix...)
	return string(append(redis.AppendEscaped(b, id), '}'))
}

func partKey(record, id string) string {
	b := append(make([]byte, 0, len(record)+40), record...)
	return string(redis.AppendEscaped(append(b, "id:"...), id))
}

// sameRecord reports whether two buckets are kept under one key.
func sameRecord(a, b *sluice.Key) bool {
	return a.Entity == b.Entity && a.Resource == b.Resource && a.Namespace == b.Namespace
}

// parseRecordKey reads a record's key. ok is false for any other key.
func parseRecordKey(key string) (k sluice.Key, ok bool) {
	tag, ok := strings.CutPrefix(key, redis.Prefix+"{")
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
		if *field, ok = redis.Unescape(parts[i]); !ok {
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
		return string(redis.AppendEscaped(nil, s))
	}
	return redis.Prefix + "{" + string(redis.AppendEscaped(nil, q.Namespace)) + "|" + part(q.Entity) + "|" + part(q.Resource) + "}"
}
