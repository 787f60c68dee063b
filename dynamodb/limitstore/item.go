package limitstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
)

// The attributes of an item with buckets. Those of a limit begin with b_ and its
// name, and end with what they are.
const (
	versionAttribute = "v" // raised by every write

	isLimit    = "li" // the limit that it was written under
	isUsed     = "us" // as bucket.State
	isRem      = "rm"
	isTime     = "rf"
	isConsumed = "tc"
	isExt      = "ex"
	isTotal    = "lt" // net consumption since the item was made, full or not

	entityPrefix   = "ENTITY#"
	bucketPrefix   = "#BUCKET#"
	resourcePrefix = "RESOURCE#"
	indexPrefix    = "BUCKET#"
)

func attribute(limit, is string) string { return "b_" + dynamodb.Escape(limit) + "_" + is }

// cutAttribute is the inverse of attribute.
func cutAttribute(name string) (limit, is string, ok bool) {
	name, ok = strings.CutPrefix(name, "b_")
	at := strings.LastIndexByte(name, '_')
	if !ok || at < 0 {
		return "", "", false
	}
	limit, ok = dynamodb.Unescape(name[:at])
	return limit, name[at+1:], ok
}

// subject is what an item is about.
type subject struct{ namespace, entity, resource string }

func subjectOf(k *sluice.Key) subject { return subject{k.Namespace, k.Entity, k.Resource} }

func (s subject) key() dynamodb.Key {
	return dynamodb.Key{PK: dynamodb.Scope(s.namespace) + entityPrefix + dynamodb.Escape(s.entity), SK: bucketPrefix + dynamodb.Escape(s.resource)}
}

func (s subject) limit(name string) sluice.Key {
	return sluice.Key{Namespace: s.namespace, Entity: s.entity, Resource: s.resource, Limit: name}
}

// parseSubject returns what the item of a key is about, if it has buckets.
func parseSubject(k dynamodb.Key) (s subject, ok bool) {
	namespace, rest, ok := dynamodb.CutScope(k.PK)
	entity, isEntity := strings.CutPrefix(rest, entityPrefix)
	resource, isBucket := strings.CutPrefix(k.SK, bucketPrefix)
	if !ok || !isEntity || !isBucket {
		return s, false
	}
	s.namespace = namespace
	s.entity, isEntity = dynamodb.Unescape(entity)
	s.resource, isBucket = dynamodb.Unescape(resource)
	return s, isEntity && isBucket
}

// item is the buckets of one subject, as they were read and as they are to be
// written.
type item struct {
	subject
	key     dynamodb.Key
	version int64         // 0: there is none
	raw     dynamodb.Item // as it was read
	records map[string]*record
	changed bool
}

// record is one bucket: a state and the limit it was written under.
type record struct {
	spec    *bucket.Spec
	state   bucket.State
	total   int64
	damaged error // why it cannot be read
	changed bool
}

// readItem reads an item, nil if there is none.
func readItem(s subject, raw dynamodb.Item) *item {
	it := &item{subject: s, key: s.key(), raw: raw, records: map[string]*record{}}
	it.version, _ = dynamodb.Number(raw[versionAttribute])
	for name := range raw {
		limit, is, ok := cutAttribute(name)
		if ok && (is == isLimit || is == isTotal) && it.records[limit] == nil {
			it.records[limit] = readRecord(limit, raw)
		}
	}
	return it
}

// readRecord reads one bucket. One with a total and no limit is absent but for that.
func readRecord(limit string, raw dynamodb.Item) *record {
	r := &record{}
	number := func(is string) int64 {
		a := raw[attribute(limit, is)]
		n, ok := dynamodb.Number(a)
		if a != nil && !ok && r.damaged == nil {
			r.damaged = fmt.Errorf("attribute %s is not a number", attribute(limit, is))
		}
		return n
	}
	r.total = number(isTotal)
	text := raw[attribute(limit, isLimit)]
	if text == nil {
		return r
	}
	spec, err := decodeLimit(dynamodb.Text(text))
	if err != nil {
		r.damaged = err
		return r
	}
	r.spec = spec
	r.state = bucket.State{Used: number(isUsed), Rem: number(isRem), Time: number(isTime), Consumed: number(isConsumed)}
	if at := number(isAt); at > r.state.Time { // speculate has taken from it since
		r.state.Used, r.state.Rem = spec.Refill(r.state.Used, r.state.Rem, at-r.state.Time)
		r.state.Time = at
	}
	if x, ok := raw[attribute(limit, isExt)].(*types.AttributeValueMemberB); ok {
		if r.state.Ext, err = decodeExt(x.Value); err != nil {
			r.damaged = err
		}
	}
	return r
}

// absent reports whether there might as well be no bucket.
func (r *record) absent(now int64) bool {
	if r.spec == nil {
		return true
	}
	v := r.spec.View(&r.state, now)
	return v.Idle() && !r.state.Recalled(v)
}

// empty reports whether the bucket is absent whatever time it is.
func (r *record) empty() bool {
	x := r.state.Ext
	return r.state.Used == 0 && (x == nil || len(x.Holds)+len(x.Tickets) == 0 && x.Recalled == 0)
}

// forgetAfter is for how long a bucket must have been full to be left out when its
// item is written: another node's clock may be behind.
const forgetAfter = time.Hour

// write returns the item as it is to be written.
func (it *item) write(now int64) dynamodb.Item {
	raw := maps.Clone(it.raw)
	if raw == nil {
		raw = it.key.Item()
		raw[dynamodb.GSI2PK] = dynamodb.S(dynamodb.Scope(it.namespace) + resourcePrefix + dynamodb.Escape(it.resource))
		raw[dynamodb.GSI2SK] = dynamodb.S(indexPrefix + dynamodb.Escape(it.entity))
	}
	raw[versionAttribute] = dynamodb.N(it.version + 1)
	gone := now
	for limit, r := range it.records {
		if r.damaged != nil && !r.changed {
			continue // as it is
		}
		if r.spec != nil && (r.changed && r.empty() || r.absent(now-forgetAfter.Microseconds())) {
			r.spec, r.state, r.changed = nil, bucket.State{}, true
		}
		if r.spec != nil {
			gone = max(gone, r.goneBy(now))
		}
		if r.changed {
			r.write(limit, raw)
		}
	}
	raw[dynamodb.TTL] = dynamodb.N(time.UnixMicro(gone).Add(keepItems).Unix())
	return raw
}

// keepItems is for how long an item is kept after all of its buckets are full: the
// nodes' clocks may differ from the service's, and totals live that long.
const keepItems = 24 * time.Hour

// goneBy is a time by which the bucket is full whatever is taken of it meanwhile
// without the item's time to live being set again: see speculate.
func (r *record) goneBy(now int64) int64 {
	v := r.spec.View(&r.state, now)
	at := v.Now + min(r.spec.RetryIn(&r.state, v, r.spec.Capacity), bucket.Forever)
	if r.spec.Limit.Algorithm == sluice.TokenBucket {
		at = max(at, v.Now+r.spec.RepayIn(0, r.spec.Capacity))
	}
	if r.state.Ext != nil {
		at = max(at, r.state.Ext.Recalled)
	}
	return at
}

// write puts the attributes of a bucket into raw.
func (r *record) write(limit string, raw dynamodb.Item) {
	for _, is := range []string{isLimit, isUsed, isRem, isTime, isConsumed, isExt, isAt, isFull} {
		delete(raw, attribute(limit, is))
	}
	raw[attribute(limit, isTotal)] = dynamodb.N(r.total)
	if r.spec == nil {
		return
	}
	raw[attribute(limit, isLimit)] = dynamodb.S(encodeLimit(r.spec.Limit))
	raw[attribute(limit, isUsed)] = dynamodb.N(r.state.Used)
	raw[attribute(limit, isTime)] = dynamodb.N(r.state.Time)
	raw[attribute(limit, isConsumed)] = dynamodb.N(r.state.Consumed)
	if r.state.Rem != 0 {
		raw[attribute(limit, isRem)] = dynamodb.N(r.state.Rem)
	}
	if r.state.Ext != nil {
		raw[attribute(limit, isExt)] = &types.AttributeValueMemberB{Value: encodeExt(r.state.Ext)}
	} else if r.spec.Limit.Algorithm == sluice.TokenBucket {
		raw[attribute(limit, isAt)] = dynamodb.N(r.state.Time)
		raw[attribute(limit, isFull)] = dynamodb.N(r.state.Time + r.spec.RepayIn(r.state.Rem, r.state.Used))
	}
}

// names returns the names of the limits, in order.
func (it *item) names() []string { return slices.Sorted(maps.Keys(it.records)) }
