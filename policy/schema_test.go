package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestTheSchemaFileIsUpToDate(t *testing.T) {
	if *update {
		if err := os.WriteFile("schema.json", Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(Schema()) {
		t.Error("schema.json is not what the types say; run go test ./policy -update")
	}
}

// An editor shows what a setting is for only if the schema says so.
func TestEverySettingIsDescribed(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	var look func(path string, s map[string]any)
	look = func(path string, s map[string]any) {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			p := p.(map[string]any)
			if p["description"] == nil && name != "read" && name != "write" {
				t.Errorf("%s.%s has no description", path, name)
			}
			look(path+"."+name, p)
		}
		for _, key := range []string{"items", "additionalProperties"} {
			if sub, ok := s[key].(map[string]any); ok {
				look(path+".*", sub)
			}
		}
		subs, _ := s["anyOf"].([]any)
		for _, sub := range subs {
			look(path, sub.(map[string]any))
		}
	}
	look("", s)
}

// What is good must be good for editors, too, and a wrong key must not.
func TestTheSchemaAcceptsGoodFiles(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	for _, name := range inputs(t, "testdata/good/*.yaml", "testdata/good/*.json", "../examples/*.yaml") {
		if wrong := against(t, s, name); len(wrong) > 0 {
			t.Errorf("%s: %s", name, strings.Join(wrong, "\n"))
		}
	}
	for _, name := range []string{"testdata/bad/keys.yaml", "testdata/bad/values.yaml", "testdata/bad/list.yaml"} {
		if len(against(t, s, name)) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}

func against(t *testing.T, s map[string]any, name string) []string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var node yaml.Node
	if filepath.Ext(name) == ".json" {
		node.Content = []*yaml.Node{jsonNodes(content)}
	} else if err := yaml.Unmarshal(content, &node); err != nil {
		t.Fatal(err)
	}
	return validate("", s, plainValue(node.Content[0], 0))
}

// plainValue is a node as JSON would have it.
func plainValue(n *yaml.Node, depth int) any {
	if depth > 20 {
		return nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plainValue(n.Alias, depth+1)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plainValue(n.Content[i+1], depth+1)
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, e := range n.Content {
			list = append(list, plainValue(e, depth+1))
		}
		return list
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int", "!!float":
		var f float64
		if _, err := fmt.Sscan(n.Value, &f); err == nil {
			return f
		}
	}
	return n.Value
}

// validate knows the part of JSON Schema that Schema uses.
func validate(path string, s map[string]any, v any) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, path+": "+fmt.Sprintf(format, args...)) }
	if any, ok := s["anyOf"].([]any); ok && !slices.ContainsFunc(any, func(sub interface{}) bool {
		return len(validate(path, sub.(map[string]interface{}), v)) == 0
	}) {
		say("%v is none of the choices", v)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		say("%v is not in %v", v, enum)
	}
	if c, ok := s["const"]; ok && c != v {
		say("%v is not %v", v, c)
	}
	if types := s["type"]; types != nil {
		list, ok := types.([]any)
		if !ok {
			list = []any{types}
		}
		is := map[reflect.Kind]string{reflect.Map: "object", reflect.Slice: "array", reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number"}[reflect.ValueOf(v).Kind()]
		if f, ok := v.(float64); ok && f == float64(int64(f)) && slices.Contains(list, any("integer")) {
			is = "integer"
		}
		if v == nil {
			is = "null"
		}
		if !slices.Contains(list, any(is)) {
			say("is %s, not %v", is, types)
		}
	}
	switch v := v.(type) {
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			say("%q does not match %s", v, p)
		}
	case float64:
		if low, ok := s["minimum"].(float64); ok && v < low {
			say("%v is below %v", v, low)
		}
		if high, ok := s["maximum"].(float64); ok && v > high {
			say("%v is above %v", v, high)
		}
	case []any:
		if items, ok := s["items"].(map[string]any); ok {
			for i, e := range v {
				wrong = append(wrong, validate(fmt.Sprintf("%s[%d]", path, i), items, e)...)
			}
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for key, e := range v {
			sub, known := properties[key].(map[string]any)
			if !known {
				sub, known = s["additionalProperties"].(map[string]any)
			}
			if !known && s["additionalProperties"] == false {
				say("%s is not allowed", key)
				continue
			}
			wrong = append(wrong, validate(path+"."+key, sub, e)...)
		}
		required, _ := s["required"].([]any)
		for _, key := range required {
			if _, ok := v[key.(string)]; !ok {
				say("%s is missing", key)
			}
		}
	}
	return wrong
}
