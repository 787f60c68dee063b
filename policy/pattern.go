package policy

import (
	"fmt"
	"strings"

	"github.com/sluice-go/sluice/internal/excerpt"
)

const (
	maxLiteral  = 255 // bytes in a segment of a pattern
	maxSegments = 32  // in a pattern
	maxMethod   = 24  // bytes in a method
)

// Pattern is which requests a rule is about: a path, or a method and a path.
//
//	/api/search           any method
//	POST /api/search
//	GET /api/users/{id}   one segment, whatever it is; * is the same
//	/api/**               any number of segments, none included
//
// A wildcard is always a whole segment.
type Pattern struct {
	text     string
	method   string // upper case; "" for any
	segments []segment
}

func (p Pattern) String() string { return p.text }

type segmentKind uint8

// The kinds, from the least specific: of two patterns, the one is more
// specific that has the greater kind where they first differ.
const (
	anySegments segmentKind = iota + 1 // **
	noSegment                          // the end of the pattern
	oneSegment                         // * or {name}
	literalSegment
)

type segment struct {
	kind    segmentKind
	literal string
}

// at is the kind of a segment, past the end too.
func (p *Pattern) at(i int) segmentKind {
	if i < len(p.segments) {
		return p.segments[i].kind
	}
	return noSegment
}

// compare is above 0 if p is more specific than q. Paths go before methods.
func (p *Pattern) compare(q *Pattern) int {
	for i := range max(len(p.segments), len(q.segments)) {
		if c := int(p.at(i)) - int(q.at(i)); c != 0 {
			return c
		}
	}
	switch {
	case p.method != "" && q.method == "":
		return 1
	case p.method == "" && q.method != "":
		return -1
	}
	return 0
}

// parsePattern reads a pattern. Its error says what would be right.
func parsePattern(s string) (Pattern, error) {
	p := Pattern{text: s}
	path := s
	if method, rest, ok := strings.Cut(s, " "); ok {
		path = strings.TrimLeft(rest, " ")
		p.method = strings.ToUpper(method)
		if !isMethod(p.method) {
			return p, fmt.Errorf("%q is not a method: expected a path such as /api/*, or a method and a path", excerpt.Of(method))
		}
	}
	if !strings.HasPrefix(path, "/") {
		return p, fmt.Errorf("expected a path that begins with /, or a method and such a path")
	}
	if strings.ContainsAny(path, "?# \t") {
		return p, fmt.Errorf("expected a path alone: no query, fragment or space")
	}
	path = strings.TrimSuffix(path[1:], "/")
	if path == "" {
		return p, nil
	}
	parts := strings.Split(path, "/")
	if len(parts) > maxSegments {
		return p, fmt.Errorf("has %d segments, and at most %d are allowed", len(parts), maxSegments)
	}
	names := map[string]bool{}
	for i, part := range parts {
		seg, err := parseSegment(part, names)
		if err != nil {
			return p, err
		}
		if seg.kind == anySegments && i > 0 && p.segments[i-1].kind == anySegments {
			return p, fmt.Errorf("** after ** has no effect: expected one of them")
		}
		p.segments = append(p.segments, seg)
	}
	return p, nil
}

func parseSegment(s string, names map[string]bool) (segment, error) {
	switch {
	case s == "*":
		return segment{kind: oneSegment}, nil
	case s == "**":
		return segment{kind: anySegments}, nil
	case s == "":
		return segment{}, fmt.Errorf("has an empty segment (//), which no request has after its path is cleaned")
	case s == "." || s == "..":
		return segment{}, fmt.Errorf("has a segment %q, which no request has after its path is cleaned", s)
	case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
		name := s[1 : len(s)-1]
		if !isName(name) {
			return segment{}, fmt.Errorf("%q is not a wildcard: expected a name of letters, digits, - and _ in the braces", excerpt.Of(s))
		}
		if names[name] {
			return segment{}, fmt.Errorf("has {%s} twice", name)
		}
		names[name] = true
		return segment{kind: oneSegment}, nil
	case strings.ContainsAny(s, "*{}"):
		return segment{}, fmt.Errorf("%q mixes a wildcard with other characters: expected *, ** or {name} as a whole segment; write %%2A for a star", excerpt.Of(s))
	}
	literal, ok := unescape(s)
	if !ok {
		return segment{}, fmt.Errorf("%q has a %% that two hexadecimal digits do not follow: expected %%25 for the sign itself", excerpt.Of(s))
	}
	if len(literal) > maxLiteral {
		return segment{}, fmt.Errorf("has a segment of %d bytes, and at most %d are allowed", len(literal), maxLiteral)
	}
	return segment{kind: literalSegment, literal: literal}, nil
}

// unescape replaces every %XX.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, ok := escaped(s, i)
		if !ok {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), true
}

// escaped is the byte that the escape at i stands for.
func escaped(s string, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, lo := unhex(s[i+1]), unhex(s[i+2])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// isMethod reports whether s can be an HTTP method, in upper case.
func isMethod(s string) bool {
	return s != "" && len(s) <= maxMethod && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// isName reports whether s can name a tier, a set, an endpoint or a limit.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' || s[0] == '_' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
