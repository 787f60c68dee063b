package policy

import (
	"encoding"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/internal/excerpt"
)

const (
	maxDepth = 16      // of nested maps and lists
	maxNodes = 300_000 // that are looked at, those behind aliases each time
	maxText  = 2_000   // bytes of a text
)

// nodeDecoder is a type that can be written in more than one way.
type nodeDecoder interface {
	decodeNode(d *decoder, path string, n *yaml.Node)
	schema() schema
}

// growing is an [ordered] map of whatever type.
type growing interface {
	add(key string) any
	element() any
	len() int
}

// decoder fills in a document and reports everything that does not fit.
type decoder struct {
	*report
	nodes int
	depth int
}

// decode reads the node into v, as tag allows.
func (d *decoder) decode(path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	d.values[path] = position{n.Line, n.Column}
	d.depth++
	defer func() { d.depth-- }()
	if d.nodes++; d.nodes > maxNodes || d.depth > maxDepth {
		d.tooMuch(path)
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch t := v.Addr().Interface().(type) {
	case nodeDecoder:
		t.decodeNode(d, path, n)
		d.bounds(path, v, tag)
		return
	case growing:
		d.decodeMap(path, n, t, tag)
		return
	case encoding.TextUnmarshaler:
		d.decodeText(path, n, t)
		return
	case *time.Duration:
		d.decodeDuration(path, n, t)
		d.bounds(path, v, tag)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(path, n, v)
	case reflect.Slice:
		d.decodeList(path, n, v, tag)
	case reflect.Map:
		d.decodeTexts(path, n, v)
	default:
		d.decodeScalar(path, n, v, tag)
	}
}

func (d *decoder) tooMuch(path string) {
	if d.nodes <= maxNodes {
		d.add(path, "is nested more than %d levels deep", maxDepth)
		return
	}
	if d.nodes == maxNodes+1 {
		d.only(path, fmt.Sprintf("the file has more than %d values, counting those behind aliases each time", maxNodes))
	}
}

// entries calls each for every key of a map that is not there twice.
func (d *decoder) entries(path string, n *yaml.Node, each func(key string, at string, value *yaml.Node)) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // the section is there and has nothing in it
	}
	if n.Kind != yaml.MappingNode {
		d.add(path, "is %s, and a map was expected", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
			d.put(position{k.Line, k.Column}, path, "", "has a key that is not a plain name; merge keys (<<) are not supported, an alias of a whole value is")
			continue
		}
		at := join(path, k.Value)
		if line, twice := seen[k.Value]; twice {
			d.put(position{k.Line, k.Column}, at, "", fmt.Sprintf("is there twice, first on line %d", line))
			continue
		}
		seen[k.Value] = k.Line
		d.keys[at] = position{k.Line, k.Column}
		each(k.Value, at, value)
	}
}

func join(path, key string) string {
	if path == "" {
		return excerpt.Of(key)
	}
	return path + "." + excerpt.Of(key)
}

func (d *decoder) decodeStruct(path string, n *yaml.Node, v reflect.Value) {
	fields := fieldsOf(v.Type())
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	given := map[string]bool{}
	d.entries(path, n, func(key, at string, value *yaml.Node) {
		i := slices.Index(names, key)
		if i < 0 {
			d.addKey(at, key, names, "is not a setting here; expected one of %s", strings.Join(names, ", "))
			return
		}
		given[key] = true
		d.decode(at, value, v.Field(fields[i].index), fields[i].tag)
	})
	for _, f := range fields {
		if f.required && !given[f.name] && n.Kind != yaml.SequenceNode {
			d.add(path, "%s is missing: %s", f.name, f.tag.Get("doc"))
		}
	}
}

func (d *decoder) decodeMap(path string, n *yaml.Node, m growing, tag reflect.StructTag) {
	d.entries(path, n, func(key, at string, value *yaml.Node) {
		if key == "" || len(key) > 255 {
			d.addKey(at, key, nil, "is not a name: expected 1 to 255 bytes")
			return
		}
		d.decode(at, value, reflect.ValueOf(m.add(key)).Elem(), tag)
	})
}

func (d *decoder) decodeTexts(path string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.entries(path, n, func(key, at string, value *yaml.Node) {
		text := reflect.New(v.Type().Elem()).Elem()
		d.decode(at, value, text, "")
		v.SetMapIndex(reflect.ValueOf(key), text)
	})
}

// decodeList reads a list, or one value as a list of it.
func (d *decoder) decodeList(path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)))
	items, index := n.Content, true
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return
	case n.Kind == yaml.ScalarNode:
		items, index = []*yaml.Node{n}, false
	case n.Kind != yaml.SequenceNode:
		d.add(path, "is %s, and a list was expected", kindOf(n))
		return
	}
	for i, item := range items {
		at := path
		if index {
			at = path + "[" + strconv.Itoa(i) + "]"
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.decode(at, item, e, tag)
		v.Set(reflect.Append(v, e))
	}
}

// scalar is the text of a node, or false after a report of what else it is.
func (d *decoder) scalar(path string, n *yaml.Node, expected string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		d.add(path, "is %s, and %s was expected", kindOf(n), expected)
		return "", false
	}
	if len(n.Value) > maxText {
		d.add(path, "is %d bytes long, and at most %d are allowed", len(n.Value), maxText)
		return "", false
	}
	return n.Value, true
}

func (d *decoder) decodeText(path string, n *yaml.Node, t encoding.TextUnmarshaler) {
	text, ok := d.scalar(path, n, "a text")
	if !ok {
		return
	}
	if err := t.UnmarshalText([]byte(text)); err != nil {
		d.add(path, "%v", err)
	}
}

func (d *decoder) decodeDuration(path string, n *yaml.Node, v *time.Duration) {
	text, ok := d.scalar(path, n, "a duration such as 30s")
	if !ok {
		return
	}
	var err error
	if *v, err = parseDuration(text); err != nil {
		d.add(path, "%q is not a duration: expected a number with a unit, such as 500ms, 30s, 15m, 24h or 7d", excerpt.Of(text))
	}
}

// parseDuration reads what package time does, and days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(s)
}

func (d *decoder) decodeScalar(path string, n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.String:
		text, ok := d.scalar(path, n, "a text")
		if !ok {
			return
		}
		if n.ShortTag() == "!!bool" {
			d.add(path, "is %s, and a text was expected; put it in quotes if it is one", n.Value)
			return
		}
		v.SetString(text)
		d.check(path, v, tag)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.Value)
		if err != nil || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.guess(path, n.Value, []string{"true", "false"}, "is %s, and true or false was expected", describe(n))
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
			d.add(path, "is %s, and a whole number was expected", describe(n))
			return
		}
		v.SetInt(i)
		d.bounds(path, v, tag)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if tag := n.ShortTag(); err != nil || n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" {
			d.add(path, "is %s, and a number was expected", describe(n))
			return
		}
		v.SetFloat(f)
		d.bounds(path, v, tag)
	default:
		panic("policy: no way to decode a " + v.Type().String())
	}
}

// bounds checks a number against the field's min and max.
func (d *decoder) bounds(path string, v reflect.Value, tag reflect.StructTag) {
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" && high == "" {
		return
	}
	if duration, ok := v.Interface().(time.Duration); ok {
		most, err := parseDuration(high)
		if err != nil {
			panic("policy: " + err.Error())
		}
		if duration < 0 || duration > most {
			d.add(path, "is %s, and a duration from 0 to %s was expected", duration, high)
		}
		return
	}
	number := 0.0
	if v.CanInt() {
		number = float64(v.Int())
	} else {
		number = v.Float()
	}
	least, _ := strconv.ParseFloat(low, 64) // 0 without one
	most, _ := strconv.ParseFloat(high, 64)
	switch {
	case number >= least && number <= most:
	case least == most:
		d.add(path, "is %s, and %s was expected", strconv.FormatFloat(number, 'f', -1, 64), high)
	default:
		d.add(path, "is %s, and a number from %s to %s was expected", strconv.FormatFloat(number, 'f', -1, 64), strconv.FormatFloat(least, 'f', -1, 64), high)
	}
}

// check looks at a text as the field's enum and check say.
func (d *decoder) check(path string, v reflect.Value, tag reflect.StructTag) {
	text := v.String()
	if enum := tag.Get("enum"); enum != "" {
		names := strings.Split(enum, ",")
		if !slices.Contains(names, text) {
			d.guess(path, text, names, "is %q, and one of %s was expected", excerpt.Of(text), strings.Join(names, ", "))
		}
	}
	switch tag.Get("check") {
	case "header":
		if !isHeader(text) {
			d.add(path, "%q is not the name of a header", excerpt.Of(text))
			return
		}
		v.SetString(http.CanonicalHeaderKey(text))
	case "scope":
		if text == "" || len(text) > 200 || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 127 || c == '"' || c == '\\' }) {
			d.add(path, "%q is not a scope: expected a word such as orders:write", excerpt.Of(text))
		}
	case "link":
		if u, err := url.Parse(text); err != nil || !(u.IsAbs() && u.Host != "" || strings.HasPrefix(text, "/")) || strings.ContainsAny(text, "\"<>\\ ") {
			d.add(path, "%q is not a link: expected an address such as https://example.com/docs, or a path", excerpt.Of(text))
		}
	case "name":
		if !isName(text) {
			d.add(path, "%q is not a name: expected 1 to 64 letters, digits, - and _", excerpt.Of(text))
		}
	case "method":
		v.SetString(strings.ToUpper(text))
		if !isMethod(v.String()) {
			d.add(path, "%q is not a method: expected a word such as OPTIONS", excerpt.Of(text))
		}
	}
}

// isHeader reports whether s can be the name of a header.
func isHeader(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 127 || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "empty"
	}
	return "a single value"
}

func describe(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		return strconv.Quote(excerpt.Of(n.Value))
	}
	return kindOf(n)
}

// field is one setting of a struct.
type field struct {
	name     string
	index    int
	required bool
	tag      reflect.StructTag
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields = append(fields, field{name, i, options == "required", f.Tag})
	}
	return fields
}
