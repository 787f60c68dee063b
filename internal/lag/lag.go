// Package lag measures how far a replica is behind its primary, by how much each
// has of the stream of writes: what the primary had some time ago, the replica has
// by now. The clocks of the two do not matter.
package lag

import (
	"sync/atomic"
	"time"
)

// Every is how often the lag is to be measured.
const Every = 100 * time.Millisecond

// kept is for how long a lag can be told; one that is longer is unknown.
const kept = 10 * time.Second

// Meter knows how far a replica is behind, and counts what was read from it. Only
// one goroutine may call Measure.
type Meter struct {
	had     atomic.Pointer[time.Time] // when the replica had everything
	read    atomic.Int64
	skipped atomic.Int64

	offsets []offset // of the primary, the oldest first
}

type offset struct {
	at    time.Time
	bytes int64
}

// Measure asks both for how much they have, which they may not know.
func (m *Meter) Measure(primary, replica func() (bytes int64, ok bool)) {
	at := time.Now()
	if bytes, ok := primary(); ok {
		m.offsets = append(m.offsets, offset{at, bytes})
	}
	for len(m.offsets) > 0 && at.Sub(m.offsets[0].at) > kept {
		m.offsets = m.offsets[1:]
	}
	bytes, ok := replica()
	if had, known := caughtUp(m.offsets, bytes); ok && known {
		m.had.Store(&had)
	}
}

// caughtUp returns the last time at which the primary had no more than bytes.
func caughtUp(offsets []offset, bytes int64) (at time.Time, ok bool) {
	for _, o := range offsets {
		if o.bytes <= bytes {
			at, ok = o.at, true
		}
	}
	return at, ok
}

// Lag returns how far the replica is behind at most, by now.
func (m *Meter) Lag() (time.Duration, bool) {
	had := m.had.Load()
	if had == nil {
		return 0, false
	}
	d := time.Since(*had)
	return d, d <= kept
}

// Near reports whether the replica is at most so far behind, so that it is read,
// and counts that.
func (m *Meter) Near(most time.Duration) bool {
	if lag, ok := m.Lag(); !ok || lag > most {
		m.skipped.Add(1)
		return false
	}
	m.read.Add(1)
	return true
}

// Counts returns how often the replica was near, and how often it was not.
func (m *Meter) Counts() (read, skipped int64) { return m.read.Load(), m.skipped.Load() }
