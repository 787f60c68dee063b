package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/server"
)

// What the table of routes says and what the description says is the same.
func TestTheDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	described := map[string]string{}
	for _, op := range openSpec(t).operations() {
		described[op.method+" "+op.path] = fmt.Sprint(op.about["x-role"])
	}
	routes := map[string]string{"GET /": "public", "GET /healthz": "public", "GET /v1/openapi.yaml": "public", "GET /v1/openapi.json": "public"}
	for _, r := range server.Routes() {
		routes[r.Method+" "+r.Path] = r.Role.String()
	}
	for name, role := range routes {
		if described[name] != role {
			t.Errorf("%s needs %s, and the description says %q", name, role, described[name])
		}
	}
	for name := range described {
		if _, ok := routes[name]; !ok {
			t.Errorf("%s is described and not there", name)
		}
	}
}

// References lead somewhere, and everything that is described is used.
func TestTheDescriptionHangsTogether(t *testing.T) {
	s := openSpec(t)
	used := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[strings.TrimPrefix(ref, "#/components/")] = true
				if len(s.resolve(v)) == 0 {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(map[string]any(s))
	for _, kind := range []string{"parameters", "schemas", "responses"} {
		for name := range object(dig(map[string]any(s), "components", kind)) {
			if !used[kind+"/"+name] {
				t.Errorf("%s %s is not used", kind, name)
			}
		}
	}
	for _, op := range s.operations() {
		for _, segment := range strings.Split(op.path, "/") {
			name, isParameter := strings.CutPrefix(segment, "{")
			all, _ := dig(map[string]any(s), "paths", op.path, "parameters").([]any)
			if isParameter && !slices.ContainsFunc(all, func(p any) bool { return object(p)["name"] == strings.TrimSuffix(name, "}") }) {
				t.Errorf("%s: parameter %s is not described", op.path, segment)
			}
		}
	}
}

func TestTheDescriptionIsServedToAnyone(t *testing.T) {
	s := stage(t, nil)
	response := s.raw(t, "GET", "/v1/openapi.yaml", "", nil)
	want, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if response.status != 200 || response.body != string(want) || response.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %d, %d bytes of %s", response.status, len(response.body), response.header.Get("Content-Type"))
	}
	response = s.raw(t, "GET", "/v1/openapi.json", "", nil)
	var got spec
	if err := json.Unmarshal([]byte(response.body), &got); err != nil {
		t.Fatal(err)
	}
	inYAML, err := json.Marshal(openSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := json.Marshal(got)
	if err != nil || !bytes.Equal(inJSON, inYAML) || response.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v: the JSON is not what the YAML is", err)
	}
}

// Every operation has a name of its own, and every example is as its schema says.
func TestTheDescriptionHasNamesAndExamples(t *testing.T) {
	s := openSpec(t)
	names, examples := map[any]bool{}, 0
	for _, op := range s.operations() {
		name, _ := op.about["operationId"].(string)
		if !regexp.MustCompile("^[a-z][A-Za-z]+$").MatchString(name) || names[name] {
			t.Errorf("%s %s: operationId %q", op.method, op.path, name)
		}
		names[name] = true
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			example, there := v["example"]
			if schema, ok := v["schema"]; ok && there {
				text, err := json.Marshal(example)
				if err == nil {
					err = json.Unmarshal(text, &example) // numbers as JSON has them
				}
				if err == nil {
					err = s.check(schema, example, at)
				}
				if err != nil {
					t.Error(err)
				}
				examples++
			}
			for name, inner := range v {
				walk(at+"."+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprint(at, i), inner)
			}
		}
	}
	walk("", map[string]any(s))
	if examples < 20 {
		t.Errorf("there are only %d examples", examples)
	}
}

// Names are in camelCase, and nothing has two of them.
func TestNamesInTheDescription(t *testing.T) {
	schemas := object(dig(map[string]any(openSpec(t)), "components", "schemas"))
	old := regexp.MustCompile("Ms$|^(amount|count|quota|free|numbers)$")
	for name, schema := range schemas {
		for field, about := range object(object(schema)["properties"]) {
			if !regexp.MustCompile("^[a-z][A-Za-z]*$").MatchString(field) || old.MatchString(field) {
				t.Errorf("%s.%s is not how it is called", name, field)
			}
			values, _ := object(about)["enum"].([]any)
			for _, value := range values {
				if !regexp.MustCompile("^[a-z][A-Za-z]*$").MatchString(fmt.Sprint(value)) {
					t.Errorf("%s.%s: value %v", name, field, value)
				}
			}
		}
	}
}

func TestTheStartPage(t *testing.T) {
	s := stage(t, nil)
	for accept, kind := range map[string]string{"text/html,application/xhtml+xml": "text/html", "*/*": "text/plain"} {
		response := s.raw(t, "GET", "/", "", map[string]string{"Accept": accept})
		if response.status != 200 || !strings.HasPrefix(response.header.Get("Content-Type"), kind) || !strings.Contains(response.body, "/v1/openapi.yaml") || len(response.body) > 4096 {
			t.Errorf("%s: %d %s\n%s", accept, response.status, response.header.Get("Content-Type"), response.body)
		}
	}
	if response := s.raw(t, "GET", "/nothing", "", nil); response.status != 404 {
		t.Errorf("another path: %d", response.status)
	}
}

// seen are the operations that tests have had a good answer from.
var seen sync.Map

// TestMain also says which operations no test has asked for.
func TestMain(m *testing.M) {
	code := m.Run()
	if run := flag.Lookup("test.run"); code == 0 && run.Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		s, err := loadSpec()
		if err != nil {
			panic(err)
		}
		for _, op := range s.operations() {
			if _, ok := seen.Load(op.method + " " + op.path); !ok {
				fmt.Fprintln(os.Stderr, "no test has asked for", op.method, op.path)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// checking sends requests and checks what comes back, and whatever was asked
// with success, against the description.
type checking struct {
	t    testing.TB
	base http.RoundTripper
}

func (c checking) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(got))
	if err := c.check(r, sent, response, got); err != nil {
		c.t.Errorf("%s %s: %d: %v", r.Method, r.URL.EscapedPath(), response.StatusCode, err)
	}
	return response, nil
}

func (c checking) check(r *http.Request, sent []byte, response *http.Response, got []byte) error {
	s := openSpec(c.t)
	op, ok := s.find(r.Method, r.URL.EscapedPath())
	if !ok {
		if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
			return nil
		}
		return fmt.Errorf("is not described")
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil && len(got) > 0 {
		return err
	}
	at := strconv.Itoa(response.StatusCode)
	about, ok := dig(op.about, "responses", at).(map[string]any)
	if !ok {
		expected, _ := op.about["x-problems"].([]any)
		if !slices.Contains([]int{400, 401, 403, 413, 500}, response.StatusCode) && !slices.Contains(expected, any(response.StatusCode)) {
			return fmt.Errorf("this status is not described: %s", got)
		}
		return s.checkBody(s.resolve(dig(op.about, "responses", at[:1]+"XX"))["content"], kind, got, at)
	}
	seen.Store(op.method+" "+op.path, true)
	if content, ok := about["content"]; ok {
		if err := s.checkBody(content, kind, got, at); err != nil {
			return err
		}
	} else if len(got) > 0 {
		return fmt.Errorf("there is a body, and none is described: %s", got)
	}
	return c.checkSent(s, op, r, sent)
}

// checkSent checks a request that was good: it must be described, too.
func (c checking) checkSent(s spec, op operation, r *http.Request, sent []byte) error {
	if len(sent) > 0 {
		content := object(dig(op.about, "requestBody", "content"))
		kinds := slices.Collect(maps.Keys(content))
		if len(kinds) != 1 {
			return fmt.Errorf("a body was sent, and none is described")
		}
		if err := s.checkBody(content, kinds[0], sent, "request"); err != nil {
			return err
		}
	}
	for name := range r.URL.Query() {
		known := false
		all, _ := op.about["parameters"].([]any)
		for _, p := range all {
			parameter := s.resolve(p)
			known = known || parameter["in"] == "query" && parameter["name"] == name
		}
		if !known {
			return fmt.Errorf("parameter %s is not described", name)
		}
	}
	return nil
}
