package limitstore

import (
	"crypto/sha1"
	"encoding/binary"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// compiled is a limit prepared for calls.
type compiled struct {
	spec *bucket.Spec

	// limit is how the script writes it: amount and period in lowest terms,
	// capacity, by how much amount and period were reduced, algorithm,
	// calendar, and the zone. So everything the arithmetic needs
	// is at hand, and the limit can be read back as it was.
	limit string

	name    string
	windows atomic.Pointer[windows]
}

// set is limits that are asked for together, in this order, of one record.
type set struct {
	text   string // as arguments and records have it
	digest [8]byte
}

// burstGiven marks in the calendar's byte that Burst was not left to Amount.
const burstGiven = 16

// limits keeps what has been compiled. Readers need no lock.
type limits struct {
	known cache[limitName, *compiled]
	sets  cache[[maxSet]*compiled, *set]
}

type limitName struct {
	limit sluice.Limit
	name  string
}

// maxSet is how many limits a set may have to be kept.
const maxSet = 4

// cache is a map for many readers.
type cache[K comparable, V any] struct {
	known atomic.Pointer[map[K]V]
	mu    sync.Mutex
}

func (c *cache[K, V]) get(key K) (v V, ok bool) {
	if known := c.known.Load(); known != nil {
		v, ok = (*known)[key]
	}
	return v, ok
}

func (c *cache[K, V]) put(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := map[K]V{}
	if known := c.known.Load(); known != nil && len(*known) < maxLimits {
		maps.Copy(more, *known)
	}
	more[key] = v
	c.known.Store(&more)
}

// maxLimits bounds what is kept: beyond it, all is forgotten and compiled anew.
const maxLimits = 1024

// get compiles a limit whatever its name is.
func (ls *limits) get(l sluice.Limit) (*compiled, error) { return ls.named(&l, "") }

// named compiles the limit of a bucket.
func (ls *limits) named(l *sluice.Limit, name string) (*compiled, error) {
	if c, ok := ls.known.get(limitName{*l, name}); ok {
		return c, nil
	}
	spec, err := bucket.Compile(*l)
	if err != nil {
		return nil, err
	}
	c := &compiled{spec: spec, limit: string(appendLimit(nil, l)), name: name}
	ls.known.put(limitName{*l, name}, c)
	return c, nil
}

// set are those of some limits that which numbers.
func (ls *limits) set(limits []*compiled, which []int) *set {
	if len(which) > maxSet {
		return newSet(limits, which)
	}
	var key [maxSet]*compiled
	for n, i := range which {
		key[n] = limits[i]
	}
	s, ok := ls.sets.get(key)
	if !ok {
		s = newSet(limits, which)
		ls.sets.put(key, s)
	}
	return s
}

func newSet(limits []*compiled, which []int) *set {
	s := &set{}
	b := []byte{byte(len(which))}
	for _, i := range which {
		b = append(b, limits[i].limit[:numbersSize]...)
	}
	for _, i := range which {
		b = append(b, limits[i].limit[numbersSize:limitSize]...)
	}
	for _, i := range which {
		zone, name := limits[i].limit[limitSize:], limits[i].name
		b = append(b, byte(len(zone)), byte(len(name)))
		b = append(append(b, zone...), name...)
	}
	// 52 bits, 13 of the digits that the script knows the sum by.
	sum := sha1.Sum(b)
	appendNumber(s.digest[:0], int64(binary.BigEndian.Uint64(sum[:])>>12))
	s.text = string(b[1:])
	return s
}

func appendLimit(b []byte, l *sluice.Limit) []byte {
	calendar := byte(l.Calendar)
	if l.Burst.Thousandths() != 0 {
		calendar |= burstGiven
	}
	amount, period := l.Amount.Thousandths(), l.Period.Microseconds()
	if l.Algorithm == sluice.TokenBucket {
		amount, period = l.Rate()
	}
	b = appendNumber(b, amount)
	b = appendNumber(b, period)
	b = appendNumber(b, l.Capacity().Thousandths())
	b = appendNumber(b, l.Amount.Thousandths()/amount)
	b = append(b, byte(l.Algorithm), calendar)
	return append(b, l.Zone...)
}

const (
	numbersSize = 24 // of amount, period and capacity
	limitSize   = 34 // of a limit without zone
)

// readLimit is the limit that appendLimit wrote.
func readLimit(s string) (l sluice.Limit, ok bool) {
	if len(s) < limitSize {
		return l, false
	}
	amount, period, capacity, scale := readNumber(s), readNumber(s[8:]), readNumber(s[16:]), readNumber(s[24:])
	l = sluice.Limit{
		Algorithm: sluice.Algorithm(s[32]),
		Calendar:  sluice.Calendar(s[33] &^ burstGiven),
		Amount:    sluice.Thousandths(amount * scale),
		Period:    microseconds(period * scale),
		Zone:      s[limitSize:],
	}
	if s[33]&burstGiven != 0 {
		l.Burst = sluice.Thousandths(capacity)
	}
	return l, true
}

// appendNumber writes an integer below 2^53 as the script reads it: a double.
func appendNumber(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func readNumber(s string) int64 {
	_ = s[7]
	bits := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return int64(math.Float64frombits(bits))
}
