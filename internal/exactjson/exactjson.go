// Package exactjson finds names in JSON that encoding/json accepts and another
// reader may understand differently: those that are there twice, and those of
// fields in another case.
package exactjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Check returns an error that names the first such name in b, which has been
// decoded into a value of type t.
func Check(b []byte, t reflect.Type) error {
	w := walker{b: b}
	return w.value(t)
}

// walker walks over JSON that is known to be valid.
type walker struct {
	b []byte
	i int
}

// next passes over spaces, commas and colons, and returns what follows.
func (w *walker) next() byte {
	for w.i < len(w.b) && strings.IndexByte(" \t\r\n,:", w.b[w.i]) >= 0 {
		w.i++
	}
	if w.i >= len(w.b) {
		return 0
	}
	return w.b[w.i]
}

// value walks over a value. t is what it was decoded into, or nil if that does
// not matter.
func (w *walker) value(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch w.next() {
	case '{':
		return w.object(t)
	case '[':
		var elem reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			elem = t.Elem()
		}
		for w.i++; w.next() != ']' && w.i < len(w.b); {
			if err := w.value(elem); err != nil {
				return err
			}
		}
		w.i++
	case '"':
		w.text()
	default:
		for w.i++; w.i < len(w.b) && strings.IndexByte(" \t\r\n,]}", w.b[w.i]) < 0; {
			w.i++
		}
	}
	return nil
}

func (w *walker) object(t reflect.Type) error {
	var fields map[string]reflect.Type
	var elem reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	} else if t != nil && t.Kind() == reflect.Map {
		elem = t.Elem()
	}
	var few [16]string
	seen := few[:0]
	var many map[string]bool // of an object with more names than few
	for w.i++; w.next() == '"'; {
		name := w.text()
		if many == nil && len(seen) == len(few) {
			many = map[string]bool{}
			for _, s := range seen {
				many[s] = true
			}
		}
		if many[name] || many == nil && slices.Contains(seen, name) {
			return badinput.Field(excerpt.Of(name), "twice", "must be there once")
		}
		if many != nil {
			many[name] = true
		} else {
			seen = append(seen, name)
		}
		inside := elem
		if fields != nil {
			known := false
			if inside, known = fields[name]; !known {
				for right := range fields {
					if strings.EqualFold(right, name) {
						return badinput.Field(excerpt.Of(name), "in another case", "must be written "+right)
					}
				}
			}
		}
		if err := w.value(inside); err != nil {
			return err
		}
	}
	w.i++
	return nil
}

// text passes over a string and returns it.
func (w *walker) text() string {
	from, plain := w.i, true
	for w.i++; w.i < len(w.b) && w.b[w.i] != '"'; w.i++ {
		if c := w.b[w.i]; c == '\\' {
			w.i++
			plain = false
		} else if c >= 0x80 {
			plain = false
		}
	}
	w.i = min(w.i+1, len(w.b))
	if plain {
		return string(w.b[from+1 : max(w.i-1, from+1)]) // what is not closed is empty
	}
	var s string
	json.Unmarshal(w.b[from:w.i], &s) //nolint:errcheck // it was decoded before
	return s
}

var known sync.Map // of types, to their fields

// fieldsOf are the fields of a struct by their names in JSON. A struct without
// any is written as something else.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if found, ok := known.Load(t); ok {
		return found.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	if len(fields) == 0 {
		fields = nil
	}
	known.Store(t, fields)
	return fields
}
