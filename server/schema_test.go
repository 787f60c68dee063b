package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// spec is openapi.yaml.
type spec map[string]any

var loadSpec = sync.OnceValues(func() (spec, error) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	var s map[string]any
	err = yaml.Unmarshal(text, &s)
	return s, err
})

func openSpec(t testing.TB) spec {
	t.Helper()
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// dig goes down by keys.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		v = object(v)[k]
	}
	return v
}

// resolve follows a reference.
func (s spec) resolve(v any) map[string]any {
	m := object(v)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	return s.resolve(dig(map[string]any(s), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
}

// operation is what the description says about a method on a path.
type operation struct {
	method, path string
	about        map[string]any
}

func (s spec) operations() (all []operation) {
	for path, item := range object(s["paths"]) {
		for method, about := range object(item) {
			if method != "parameters" {
				all = append(all, operation{strings.ToUpper(method), path, object(about)})
			}
		}
	}
	return all
}

// described are the operations, for those who ask often.
var described = sync.OnceValue(func() []operation {
	s, err := loadSpec()
	if err != nil {
		panic(err)
	}
	return s.operations()
})

// find is the operation that a request is for. The most specific path wins.
func (spec) find(method, escapedPath string) (operation, bool) {
	best, found, fixed := operation{}, false, -1
	segments := strings.Split(escapedPath, "/")
	for _, op := range described() {
		pattern := strings.Split(op.path, "/")
		if op.method != method || len(pattern) != len(segments) {
			continue
		}
		same := 0
		for i := range pattern {
			if pattern[i] == segments[i] {
				same++
			} else if !strings.HasPrefix(pattern[i], "{") || segments[i] == "" {
				same = -1
				break
			}
		}
		if same > fixed {
			best, found, fixed = op, true, same
		}
	}
	return best, found
}

// check says how v, as decoded from JSON, differs from a schema. It knows the
// part of JSON Schema that the description uses, and refuses the rest.
func (s spec) check(schema, v any, at string) error {
	rules := s.resolve(schema)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		if err := s.checkRule(rule, rules, v, at); err != nil {
			return err
		}
	}
	return nil
}

func (s spec) checkRule(rule string, rules map[string]any, v any, at string) error {
	arg := rules[rule]
	switch rule {
	case "description", "default", "example", "minimum", "maximum", "minItems", "maxItems":
	case "type":
		kinds, ok := arg.([]any)
		if !ok {
			kinds = []any{arg}
		}
		if !slices.ContainsFunc(kinds, func(kind any) bool { return isA(kind, v) }) {
			return fmt.Errorf("%s: %v is not of type %v", at, v, arg)
		}
	case "enum":
		if !slices.Contains(arg.([]any), v) {
			return fmt.Errorf("%s: %v is none of %v", at, v, arg)
		}
	case "format":
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(v)); arg != "date-time" || err != nil {
			return fmt.Errorf("%s: %v: %v", at, v, err)
		}
	case "anyOf":
		var errs []string
		for _, one := range arg.([]any) {
			err := s.check(one, v, at)
			if err == nil {
				return nil
			}
			errs = append(errs, err.Error())
		}
		return fmt.Errorf("%s: nothing fits: %s", at, strings.Join(errs, "; "))
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := object(v)[name.(string)]; !ok {
				return fmt.Errorf("%s: %s is missing", at, name)
			}
		}
	case "items":
		list, _ := v.([]any)
		for i, item := range list {
			if err := s.check(arg, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "properties", "additionalProperties":
		return s.checkFields(rules, object(v), at)
	default:
		return fmt.Errorf("%s: the checker does not know %s", at, rule)
	}
	return nil
}

func (s spec) checkFields(rules, fields map[string]any, at string) error {
	for name, value := range fields {
		schema, known := object(rules["properties"])[name]
		if !known {
			if schema = rules["additionalProperties"]; schema == false {
				return fmt.Errorf("%s: %s is not described", at, name)
			}
		}
		if schema == nil {
			continue
		}
		if err := s.check(schema, value, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func isA(kind, v any) bool {
	switch n := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && n == math.Trunc(n)
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// checkBody checks JSON against what the description says of it.
func (s spec) checkBody(content any, kind string, body []byte, at string) error {
	about, ok := object(content)[kind]
	if !ok {
		return fmt.Errorf("%s: content of type %q is not described", at, kind)
	}
	schema, ok := object(about)["schema"]
	if !ok || !strings.Contains(kind, "json") {
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: %w: %s", at, err, body)
	}
	return s.check(schema, v, at)
}

func TestTheCheckerFindsDifferences(t *testing.T) {
	s := openSpec(t)
	schema := map[string]any{"$ref": "#/components/schemas/Tier"}
	good := `{"name":"pro","version":1,"updated":"2026-01-02T03:04:05Z"}`
	for body, fault := range map[string]string{
		good:                                   "",
		`{"name":"pro","version":1}`:           "updated is missing",
		strings.Replace(good, "1,", "1.5,", 1): "not of type integer",
		strings.Replace(good, `"pro"`, "null", 1):                 "not of type string",
		strings.Replace(good, "2026-", "", 1):                     "cannot parse",
		strings.Replace(good, `"name"`, `"secret":"x","name"`, 1): "secret is not described",
		`[` + good + `]`: "name is missing",
	} {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		err := s.check(schema, v, "body")
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: want %q, got %v", body, fault, err)
		}
	}
}
