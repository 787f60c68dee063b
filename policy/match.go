package policy

import "slices"

// matcher is the compiled form of all patterns.
type matcher struct {
	automaton
	methods       map[string]int // those with their own routes; others have index 0
	exemptMethods []bool         // by that index
	exempt        *Route
	merges        merges
}

// The methods that every policy knows, by index. 0 is for all others.
var knownMethods = [...]string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

const (
	otherMethod   = 0
	getMethod     = 1
	headMethod    = 2
	optionsMethod = 7
	traceMethod   = 8
)

// reads reports whether a method changes nothing.
func reads(method int) bool {
	switch method {
	case getMethod, headMethod, optionsMethod, traceMethod:
		return true
	}
	return false
}

// method is the index of a method, in whatever case.
func (m *matcher) method(s string) int {
	switch s {
	case "GET":
		return getMethod
	case "POST":
		return 3
	}
	if i, ok := m.methods[s]; ok {
		return i
	}
	var buf [maxMethod]byte
	if len(s) > len(buf) {
		return otherMethod
	}
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		buf[i] = c
	}
	return m.methods[string(buf[:len(s)])] // does not allocate
}

func (p *Policy) match(method, path string) *Route {
	m := &p.matcher
	index := m.method(method)
	if m.exemptMethods[index] {
		return m.exempt
	}
	if state, ok := m.plain(path); ok {
		return m.states[state].routes[index]
	}
	var found readAs
	n, odd := 0, oddities(path)
	for _, r := range readings {
		if r&^odd != 0 {
			continue // reads it as another one does
		}
		if next := m.states[m.walk(path, r)].routes[index]; !slices.Contains(found[:n], next) {
			found[n] = next
			n++
		}
	}
	if n == 1 {
		return found[0]
	}
	return m.merges.of(&found, n)
}

// plain follows a path that can be read in one way only, and reports false if
// it cannot.
func (a *automaton) plain(path string) (int32, bool) {
	at := int32(0)
	start := 0
	if path != "" && path[0] == '/' {
		start = 1
	}
	for i := start; i < len(path); i++ {
		switch path[i] {
		case '%', ';':
			return 0, false
		case '/':
			if i == start || path[start] == '.' {
				return 0, false
			}
			at = a.states[at].next(path[start:i])
			start = i + 1
		}
	}
	if start < len(path) {
		if path[start] == '.' {
			return 0, false
		}
		at = a.states[at].next(path[start:])
	}
	return at, true
}

// reading is one way to read a path. Without any flag, escapes are decoded
// and all else is taken as it stands.
type reading uint8

const (
	undecoded      reading = 1 << iota // escapes are not decoded
	slashes                            // an escaped slash divides segments
	dotSegments                        // . and .. are followed
	noEmpty                            // empty segments are dropped
	noParameters                       // what follows a semicolon is dropped
	longParameters                     // up to a slash that is not escaped, though escaped ones divide
)

// readings are all of them, the one that cleans most first.
var readings = func() (all [maxReadings]reading) {
	for i, escapes := range []reading{slashes, slashes | longParameters, 0, undecoded} {
		for rest := range 8 {
			all[8*i+rest] = escapes | reading(7-rest)*dotSegments
		}
	}
	return all
}()

// oddities are the flags that may make a difference for a path.
func oddities(path string) reading {
	var odd reading
	escapes, unusual, parameters := false, false, false
	for i, begins := 0, true; i < len(path); i++ {
		c := path[i]
		if d, ok := escaped(path, i); c == '%' && ok {
			escapes = true
			unusual = unusual || !needsEscape(d) || path[i+1] > 'F' || path[i+2] > 'F'
			if d == '/' {
				odd |= slashes | noEmpty
				if parameters {
					odd |= longParameters
				}
			}
			if d == '.' {
				odd |= dotSegments
			}
			begins = d == '/' // for those who decode it first
			i += 2
			continue
		}
		unusual = unusual || needsEscape(c)
		parameters = (parameters || c == ';') && c != '/'
		switch {
		case c == ';':
			odd |= noParameters
			if begins {
				odd |= noEmpty
			}
		case c == '.' && begins:
			odd |= dotSegments
		case c == '/' && begins && i > 0:
			odd |= noEmpty
		}
		begins = c == '/'
	}
	// A path that is escaped as usual is decoded by everyone.
	if escapes && unusual {
		odd |= undecoded
	}
	return odd
}

// needsEscape reports whether a byte is usually escaped in a path, as package
// net/url does it.
func needsEscape(c byte) bool { return !unescaped[c] }

var unescaped = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@") {
		table[c] = true
	}
	return table
}()

// walk follows a path as one reading has it. It is one function so that what
// it needs stays on the stack.
func (a *automaton) walk(path string, r reading) int32 {
	var (
		at      int32
		some    [64]int32 // the states on the way, for ..
		trail   = some[:0]
		segment [maxLiteral + 1]byte // cut there, it is still longer than any literal
	)
	i := 0
	if path != "" && path[0] == '/' {
		i = 1
	}
	for i < len(path) {
		n, dropping := 0, false
		for ; i < len(path) && path[i] != '/'; i++ {
			c := path[i]
			if c == ';' && r&noParameters != 0 {
				dropping = true
			}
			if c == '%' && r&undecoded == 0 {
				if d, ok := escaped(path, i); ok {
					c = d
					i += 2
				}
				if c == '/' && r&slashes != 0 && !(dropping && r&longParameters != 0) {
					break
				}
			}
			if !dropping && n < len(segment) {
				segment[n] = c
				n++
			}
		}
		i++
		if n == 0 && r&noEmpty != 0 {
			continue
		}
		if r&dotSegments != 0 {
			if n == 1 && segment[0] == '.' {
				continue
			}
			if n == 2 && segment[0] == '.' && segment[1] == '.' {
				if last := len(trail) - 1; last >= 0 {
					at, trail = trail[last], trail[:last]
				}
				continue
			}
			trail = append(trail, at)
		}
		at = a.states[at].nextBytes(segment[:n])
	}
	return at
}
