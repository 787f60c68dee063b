package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// sparing is a log handler that writes each message about a store that is away
// once in each state of the store, or once a minute if that lasts, rather than
// once a request. The next one written tells how many were left out.
type sparing struct {
	slog.Handler
	lines *spared
}

// spared is what was written and left out since the store last changed its
// state. There are as many messages as the program has.
type spared struct {
	mu    sync.Mutex
	lines map[string]*sparedLine
}

type sparedLine struct {
	next time.Time // when it is written again
	left int       // how many were left out
}

const spareFor = time.Minute

func newSparing(h slog.Handler) slog.Handler {
	return sparing{h, &spared{lines: map[string]*sparedLine{}}}
}

// Handle writes r, or counts it.
func (s sparing) Handle(ctx context.Context, r slog.Record) error {
	left, write := s.lines.note(&r)
	if !write {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", left))
	}
	return s.Handler.Handle(ctx, r)
}

func (s *spared) note(r *slog.Record) (left int, write bool) {
	changed := r.Message == "store state changed" // as package failover writes it
	if !changed && !aboutStore(r) {
		return 0, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed {
		for _, l := range s.lines {
			l.next = time.Time{}
		}
		return 0, true
	}
	l := s.lines[r.Message]
	if l == nil {
		l = &sparedLine{}
		s.lines[r.Message] = l
	}
	if r.Time.Before(l.next) {
		l.left++
		return 0, false
	}
	left, l.left = l.left, 0
	l.next = r.Time.Add(spareFor)
	return left, true
}

// aboutStore reports whether the error in r is that a store is away.
func aboutStore(r *slog.Record) (away bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		away = ok && (errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown))
		return !away
	})
	return away
}

// WithAttrs returns a handler that adds attributes.
func (s sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{s.Handler.WithAttrs(attrs), s.lines}
}

// WithGroup returns a handler that puts attributes into a group.
func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.lines}
}
