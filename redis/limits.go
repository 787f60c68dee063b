package redis

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// compiled is a limit prepared for calls.
type compiled struct {
	spec *bucket.Spec

	// limit is how the script and the records write it: algorithm, calendar,
	// amount and period in lowest terms, capacity, by how much amount and
	// period were reduced, and the zone. So everything the arithmetic needs
	// is at hand, and the limit can be read back as it was.
	limit string

	windows atomic.Pointer[windows]
}

// burstGiven marks in the calendar's byte that Burst was not left to Amount.
const burstGiven = 16

// limits keeps what has been compiled. Readers need no lock.
type limits struct {
	known atomic.Pointer[map[sluice.Limit]*compiled]
	mu    sync.Mutex
}

// maxLimits bounds what is kept: beyond it, all is forgotten and compiled anew.
const maxLimits = 1024

func (ls *limits) get(l sluice.Limit) (*compiled, error) {
	known := ls.known.Load()
	if known != nil {
		if c := (*known)[l]; c != nil {
			return c, nil
		}
	}
	spec, err := bucket.Compile(l)
	if err != nil {
		return nil, err
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	more := map[sluice.Limit]*compiled{}
	if known = ls.known.Load(); known != nil && len(*known) < maxLimits {
		for l, c := range *known {
			more[l] = c
		}
	}
	c := &compiled{spec: spec, limit: string(appendLimit(nil, &l))}
	more[l] = c
	ls.known.Store(&more)
	return c, nil
}

func appendLimit(b []byte, l *sluice.Limit) []byte {
	calendar := byte(l.Calendar)
	if l.Burst != 0 {
		calendar |= burstGiven
	}
	amount, period := int64(l.Amount), l.Period.Microseconds()
	if l.Algorithm == sluice.TokenBucket {
		amount, period = l.Rate()
	}
	b = append(b, byte(l.Algorithm), calendar)
	b = appendNumber(b, amount)
	b = appendNumber(b, period)
	b = appendNumber(b, int64(l.Capacity()))
	b = appendNumber(b, int64(l.Amount)/amount)
	return append(b, l.Zone...)
}

// limitSize is the length of a limit without zone.
const limitSize = 34

// readLimit is the limit that appendLimit wrote.
func readLimit(s string) (l sluice.Limit, ok bool) {
	if len(s) < limitSize {
		return l, false
	}
	amount, period, capacity, scale := readNumber(s[2:]), readNumber(s[10:]), readNumber(s[18:]), readNumber(s[26:])
	l = sluice.Limit{
		Algorithm: sluice.Algorithm(s[0]),
		Calendar:  sluice.Calendar(s[1] &^ burstGiven),
		Amount:    sluice.Tokens(amount * scale),
		Period:    microseconds(period * scale),
		Zone:      s[limitSize:],
	}
	if s[1]&burstGiven != 0 {
		l.Burst = sluice.Tokens(capacity)
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
