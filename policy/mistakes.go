package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxMistakes is how many are reported of one file.
const maxMistakes = 100

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	File       string `json:"file"`
	Line       int    `json:"line"`                 // from 1
	Column     int    `json:"column"`               // from 1
	Path       string `json:"path"`                 // such as tiers.free.limits.search; "" for the whole file
	Message    string `json:"message"`              // what is wrong and what was expected
	Suggestion string `json:"suggestion,omitempty"` // what may have been meant
	Warning    bool   `json:"warning,omitempty"`    // it is allowed, and hardly meant
}

func (m *Mistake) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", m.File, m.Line, m.Column)
	if m.Warning {
		b.WriteString("warning: ")
	}
	if m.Path != "" {
		b.WriteString(m.Path + ": ")
	}
	b.WriteString(m.Message)
	if m.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", m.Suggestion)
	}
	return b.String()
}

// Mistakes is everything that is wrong with a file, in order of line. As an
// error it has one line for each.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i := range m {
		lines[i] = m[i].Error()
	}
	return strings.Join(lines, "\n")
}

// position is a place in the file.
type position struct{ line, column int }

// report collects the mistakes of a file and knows where everything in it is.
type report struct {
	file   string
	keys   map[string]position // of the keys, by path
	values map[string]position
	list   Mistakes
	warned Mistakes
	more   int  // mistakes that were left out
	closed bool // nothing more is to be said
}

func newReport(file string) *report {
	return &report{file: file, keys: map[string]position{}, values: map[string]position{}}
}

// add reports a mistake in the value at a path.
func (r *report) add(path, format string, args ...any) {
	r.put(r.at(path), path, "", fmt.Sprintf(format, args...))
}

// guess is add with what may have been meant: of the names that could stand
// there, the one most like what does.
func (r *report) guess(path, got string, names []string, format string, args ...any) {
	r.put(r.at(path), path, nearest(got, names), fmt.Sprintf(format, args...))
}

// addKey is guess about a key instead of its value.
func (r *report) addKey(path, got string, names []string, format string, args ...any) {
	at, ok := r.keys[path]
	if !ok {
		at = r.at(path)
	}
	r.put(at, path, nearest(got, names), fmt.Sprintf(format, args...))
}

// warn reports what is allowed at a path and hardly meant; got and names are as
// in guess.
func (r *report) warn(path, got string, names []string, format string, args ...any) {
	at := r.at(path)
	if len(r.warned) < maxMistakes {
		r.warned = append(r.warned, Mistake{
			File: r.file, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...), Suggestion: nearest(got, names), Warning: true,
		})
	}
}

func (r *report) put(at position, path, suggestion, message string) {
	if r.closed {
		return
	}
	if len(r.list) == maxMistakes {
		r.more++
		return
	}
	r.list = append(r.list, Mistake{File: r.file, Line: at.line, Column: at.column, Path: path, Message: message, Suggestion: suggestion})
}

// only is a mistake that makes all others unimportant.
func (r *report) only(path, message string) {
	r.list, r.more = nil, 0
	r.put(r.at(path), path, "", message)
	r.closed = true
}

// at is where a path is, or where the nearest thing around it is that was
// written.
func (r *report) at(path string) position {
	for {
		if p, ok := r.values[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return position{1, 1}
		}
		path = path[:cut]
	}
}

// where is at for people, as part of another mistake.
func (r *report) where(path string) string { return fmt.Sprintf("line %d", r.at(path).line) }

// reported reports whether there is a mistake at a path already.
func (r *report) reported(path string) bool {
	return slices.ContainsFunc(r.list, func(m Mistake) bool { return m.Path == path })
}

// err is nil if there were no mistakes.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.more > 0 {
		last := r.list[len(r.list)-1]
		r.list = append(r.list, Mistake{File: r.file, Line: last.Line, Column: last.Column, Message: fmt.Sprintf("and %d more mistakes", r.more)})
	}
	return r.list
}

// nearest is the name that is most like got, or "" if none is.
func nearest(got string, names []string) string {
	best, bound := "", len(got)/3+2
	if len(got) > 100 {
		return ""
	}
	for _, name := range names {
		if d := distance(strings.ToLower(got), strings.ToLower(name)); d < bound && d < max(len(name), 2) {
			best, bound = name, d
		}
	}
	return best
}

// distance is how many characters have to be added, dropped, changed or
// swapped with their neighbour to make b of a.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := row[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			next[j] = min(change, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
