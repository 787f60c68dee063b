package policy

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
)

// oracle is the slow and obvious matcher: it tries every pattern on every
// reading of a path.
type oracle struct{ file *document }

// verdict is what matters of a route: exempt or not, and the cost in each set
// that applies.
type verdict struct {
	exempt bool
	costs  map[string]int64
}

func (v verdict) String() string {
	s := fmt.Sprint("exempt=", v.exempt)
	for _, name := range slices.Sorted(maps.Keys(v.costs)) {
		s += fmt.Sprintf(" %s=%s", name, sluice.Thousandths(v.costs[name]))
	}
	return s
}

var (
	escape       = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	escapedSlash = regexp.MustCompile(`%2[Ff]`)
	parameters   = regexp.MustCompile(`;[^/]*`)
)

func decodeAll(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string { s, _ := url.PathUnescape(e); return s })
}

// readingsOf are the lists of segments that servers make of a path.
func readingsOf(path string) [][]string {
	texts := []string{escapedSlash.ReplaceAllString(path, "/"), path, escapedSlash.ReplaceAllString(parameters.ReplaceAllString(path, ""), "/")}
	decode := []bool{true, true, true}
	if u := (&url.URL{Path: decodeAll(path)}); escape.MatchString(path) && u.EscapedPath() != path {
		texts, decode = append(texts, path), append(decode, false)
	}
	var all [][]string
	for i, text := range texts {
		raw := strings.Split(strings.TrimPrefix(text, "/"), "/")
		if raw[len(raw)-1] == "" {
			raw = raw[:len(raw)-1]
		}
		for flags := range 8 {
			var segments []string
			for _, s := range raw {
				if flags&1 != 0 {
					s, _, _ = strings.Cut(s, ";")
				}
				if decode[i] {
					s = decodeAll(s)
				}
				switch {
				case s == "" && flags&2 != 0:
				case s == "." && flags&4 != 0:
				case s == ".." && flags&4 != 0:
					segments = segments[:max(len(segments)-1, 0)]
				default:
					segments = append(segments, s)
				}
			}
			all = append(all, segments)
		}
	}
	return all
}

// matches tries a pattern by recursion.
func matches(pattern []segment, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	switch p := pattern[0]; {
	case p.kind == anySegments:
		return matches(pattern[1:], path) || len(path) > 0 && matches(pattern, path[1:])
	case len(path) == 0:
		return false
	default:
		return (p.kind == oneSegment || p.literal == path[0]) && matches(pattern[1:], path[1:])
	}
}

// rank sorts after that of every less specific pattern that also matches.
func rank(p *Pattern, method string) string {
	var b strings.Builder
	for _, s := range p.segments {
		b.WriteString(map[segmentKind]string{literalSegment: "d", oneSegment: "c", anySegments: "a"}[s.kind])
	}
	switch p.method {
	case "":
		return b.String() + "b0"
	case method:
		return b.String() + "b2"
	}
	return b.String() + "b1" // GET for HEAD
}

func (o oracle) matching(patterns []Pattern, method string, path []string) (best string) {
	for i := range patterns {
		p := &patterns[i]
		if (p.method == "" || p.method == method || p.method == "GET" && method == "HEAD") && matches(p.segments, path) {
			best = max(best, rank(p, method))
		}
	}
	return best
}

// one is the verdict on one reading, and whether there was a tie.
func (o oracle) one(method string, path []string) (verdict, bool) {
	best, tie := o.matching(o.file.Exempt.Match, method, path), false
	v := verdict{exempt: best != "", costs: map[string]int64{}}
	cost := sluice.Token
	for _, e := range o.file.Endpoints.all() {
		switch r := o.matching(e.Match, method, path); {
		case r == "" || r < best:
		case r == best:
			tie = true
		default:
			best, tie, v.exempt = r, false, false
			cost = sluice.Token
			if e.Cost != nil {
				cost = e.Cost.rule
			}
		}
	}
	if v.exempt {
		return v, tie
	}
	for name, s := range o.file.Limits.all() {
		if len(s.Match) == 0 || o.matching(s.Match, method, path) != "" {
			v.costs[name] = cost
		}
	}
	return v, tie
}

// all is the verdict on all readings together.
func (o oracle) all(method, path string) (verdict, bool) {
	method = strings.ToUpper(method)
	v, tie := verdict{exempt: true, costs: map[string]int64{}}, false
	if slices.Contains(o.file.Exempt.Methods, method) {
		return v, false
	}
	for _, segments := range readingsOf(path) {
		one, t := o.one(method, segments)
		tie = tie || t
		v.exempt = v.exempt && one.exempt
		for name, cost := range one.costs {
			v.costs[name] = max(v.costs[name], cost)
		}
	}
	return v, tie
}

// of is the verdict of a compiled policy.
func verdictOf(p *Policy, method, path string) verdict {
	r := p.Match(method, path)
	v := verdict{exempt: r.Exempt, costs: map[string]int64{}}
	for i, d := range demands(p, r, "") {
		v.costs[r.Sets[i].Name] = d[0].Cost.Thousandths()
	}
	return v
}
