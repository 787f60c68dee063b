package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// turn is what it takes to answer one take, kept for the next one: the path
// that is used most allocates little.
type turn struct {
	in, out  []byte
	request  takeRequest
	take     sluice.Take
	decision sluice.Decision
	demands  []sluice.Demand
	costs    [1]sluice.LimitCost
	call     httplimit.Call
	lent     bool // somebody else may still use what it points to
}

var turns = sync.Pool{New: func() any { return new(turn) }}

// maxKept is the longest buffer that is kept.
const maxKept = 16 << 10

// decided notes that the take was answered. Whoever keeps a request id keeps
// its demands, and a store that did not answer in time may not have put the
// take down: then it stays lent.
func (t *turn) decided() {
	t.lent = t.take.ID != "" || t.request.Wait != 0 || t.decision.Source >= sluice.Degraded
}

// done gives t back for the next take.
func (t *turn) done() {
	if t.lent || cap(t.in)+cap(t.out) > maxKept {
		return
	}
	t.request = takeRequest{}
	t.take = sluice.Take{}
	turns.Put(t)
}

// read reads the request of a take.
func (t *turn) read(r *http.Request) (err error) {
	if t.in, err = readAll(t.in[:0], r.Body); err != nil {
		return badBody(err, nil)
	}
	if t.request.quick(t.in) {
		return nil
	}
	t.request = takeRequest{}
	return decodeBytes(t.in, &t.request)
}

// readAll appends everything that r has.
func readAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, make([]byte, max(512, cap(b)))...)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// quick reads a body in which there is nothing unusual: the names as they are
// documented, ASCII strings without escapes, plain numbers. It reports false
// for all others, which encoding/json is to read; then q may have a part of
// it.
func (q *takeRequest) quick(b []byte) bool {
	s := scanner{b: b}
	if !s.next('{') {
		return false
	}
	for seen := 0; ; {
		name, ok := s.word()
		if !ok || !s.next(':') {
			return false
		}
		field := 0
		switch string(name) {
		case "entity":
			field, ok = 1, s.text(&q.Entity)
		case "resource":
			field, ok = 2, s.text(&q.Resource)
		case "tier":
			field, ok = 4, s.text(&q.Tier)
		case "cost":
			field, ok = 8, s.number(&q.Cost)
		case "peek":
			field, ok = 16, s.truth(&q.Peek)
		case "upTo":
			field, ok = 32, s.truth(&q.UpTo)
		default:
			return false
		}
		if !ok || seen&field != 0 {
			return false
		}
		seen |= field
		if s.next(',') {
			continue
		}
		return s.next('}') && s.atEnd()
	}
}

// scanner reads the simple parts of JSON. Its methods report false for
// whatever they do not know.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.i == len(s.b)
}

// next passes over c, and spaces before it.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// word is a string of printable ASCII without escapes.
func (s *scanner) word() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for from := s.i; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[from : s.i-1], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

func (s *scanner) text(into *string) bool {
	word, ok := s.word()
	*into = string(word)
	return ok
}

// number is one of digits and perhaps a point, not below 0.
func (s *scanner) number(into *json.RawMessage) bool {
	s.space()
	from, point := s.i, -1
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c == '.' && point < 0 && s.i > from {
			point = s.i
		} else if c < '0' || c > '9' {
			break
		}
	}
	whole := s.i
	if point >= 0 {
		whole = point
	}
	if s.i == from || s.i == point+1 || s.b[from] == '0' && whole > from+1 {
		return false
	}
	*into = s.b[from:s.i]
	return true
}

func (s *scanner) truth(into *bool) bool {
	s.space()
	rest := s.b[s.i:]
	switch {
	case bytes.HasPrefix(rest, []byte("true")):
		*into, s.i = true, s.i+4
	case bytes.HasPrefix(rest, []byte("false")):
		*into, s.i = false, s.i+5
	default:
		return false
	}
	return true
}
