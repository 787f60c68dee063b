package failover

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// State is the state of a store, from working to gone. The breaker is
// closed in all but Open and HalfOpen.
type State uint8

const (
	// Normal asks the store everything.
	Normal State = iota
	// Open asks it nothing until the back-off is over, except for a health check
	// every half second.
	Open
	// HalfOpen lets one call through at a time, to see whether it works.
	HalfOpen
	// Testing asks it for the first few keys.
	Testing
	// Partial asks it for more of them.
	Partial
	// Stabilizing asks it for most.
	Stabilizing

	states = iota
)

func (s State) String() string {
	names := [states]string{"normal", "open", "half-open", "testing", "partial", "stabilizing"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// field is the name of a phase's settings.
func (s State) field() string {
	return map[State]string{Testing: "Testing", Partial: "Partial", Stabilizing: "Stabilizing"}[s]
}

// recovering reports whether s is a phase between closed and normal.
func (s State) recovering() bool { return s >= Testing }

// next is the phase after a phase.
func (s State) next() State {
	if s == Stabilizing {
		return Normal
	}
	return s + 1
}

// change is one change of state, to be told once the lock is released.
type change struct {
	from, to State
	after    time.Duration // in from
	failures int           // in a row, that led to it
	err      error         // the last of them
	probe    time.Duration // until the next probe
}

// log writes the one line there is about a change.
func (ch *change) log(log *slog.Logger) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("from", ch.from.String()), slog.String("to", ch.to.String()), slog.Duration("after", ch.after),
	}
	if ch.err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Int("failures", ch.failures), slog.Any("error", ch.err))
	}
	if ch.to == Open {
		level = slog.LevelError
		attrs = append(attrs, slog.Duration("probe_in", ch.probe))
	}
	log.LogAttrs(context.Background(), level, "store state changed", attrs...)
}
