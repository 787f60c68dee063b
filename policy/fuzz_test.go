package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const crossing = `
version: 1
limits:
  all: {limit: 100/s}
  api: {limit: 100/s, match: /api/**}
  search: {limit: 100/s, match: [POST /api/search, /api/*/search]}
  files: {limit: 100/s, match: "GET /files/{name}"}
  deep: {limit: 100/s, match: /**/admin/**}
  odd: {limit: 100/s, match: /a%2Fb/%2A}
endpoints:
  api: {match: /api/**, cost: 2}
  search: {match: POST /api/search, cost: 3}
  tenant: {match: /api/*/search, cost: 5}
  file: {match: "GET /files/{name}", cost: 7}
  head: {match: "HEAD /files/{name}", cost: 11}
  admin: {match: /**/admin, cost: 13}
  admins: {match: /**/admin/**, cost: 17}
exempt:
  methods: OPTIONS
  match: [/files/public, GET /healthz, /static/**]
`

func mustParse(t testing.TB, content string) *Policy {
	t.Helper()
	p, err := Parse("policy.yaml", []byte(content))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// FuzzMatch looks for paths that the automaton reads differently from the
// slow matcher. Whatever gets past a limit would be one.
func FuzzMatch(f *testing.F) {
	p := mustParse(f, crossing)
	o := oracle{newReport("").document([]byte(crossing))}
	for _, path := range []string{
		"/", "", "/api", "/api/", "/api/search", "/api//search", "/api/./search", "/api/x/../search", "/api%2Fsearch",
		"/api/%73earch", "/api/search;v=1", "/api/..;/search", "/files/a%2Fb", "/files/../files/x", "/%2e%2E/api/search",
		"/files/public/..%2Fsecret", "//", "/x/admin/y", "/a%2Fb/%2A", "/a%2fb/*", "*", "/files/caf%C3%A9", "/files/%zz", "/static/../api/search",
		"/static/x%2f..%2F..%2fapi%2fsearch", "/api%2Fx;a%2fb/../search", "/files/x%2f.%2fy",
	} {
		f.Add("GET", path)
		f.Add("post", path)
	}
	f.Add("HEAD", "/files/x")
	f.Add("OPTIONS", "/api/search")
	f.Fuzz(func(t *testing.T, method, path string) {
		if len(path) > 300 {
			return // the slow matcher is slow
		}
		want, _ := o.all(method, path)
		if got := verdictOf(p, method, path); got.String() != want.String() {
			t.Errorf("%s %q: got %s, want %s", method, path, got, want)
		}
		cleaned := strings.Join(readingsOf(path)[7], "/")
		if !strings.ContainsAny(cleaned, "%;") {
			_, limited := verdictOf(p, method, path).costs["api"]
			if _, must := verdictOf(p, method, "/"+cleaned).costs["api"]; must && !limited {
				t.Errorf("%s %q gets past the limit of /%s", method, path, cleaned)
			}
		}
	})
}

// TestAnyPatterns compares the automaton with the slow matcher for policies
// that nobody would write, too.
func TestAnyPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.Custom(func(t *rapid.T) string {
			segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "*", "**", "{x}", "a%2Fb"}), 0, 4).Draw(t, "segments")
			return rapid.SampledFrom([]string{"", "GET ", "POST ", "HEAD "}).Draw(t, "method") + "/" + strings.Join(segments, "/")
		}).Filter(func(s string) bool { _, err := parsePattern(s); return err == nil })
		var b strings.Builder
		b.WriteString("version: 1\nlimits:\n")
		for i := range rapid.IntRange(1, 3).Draw(t, "sets") {
			fmt.Fprintf(&b, "  s%d: {limit: 1000/s, match: [%q]}\n", i, pattern.Draw(t, "set"))
		}
		b.WriteString("endpoints:\n")
		for i := range rapid.IntRange(1, 6).Draw(t, "endpoints") {
			fmt.Fprintf(&b, "  e%d: {cost: %d, match: [%q, %q]}\n", i, i+2, pattern.Draw(t, "endpoint"), pattern.Draw(t, "endpoint"))
		}
		fmt.Fprintf(&b, "exempt: {match: [%q]}\n", pattern.Draw(t, "exempt"))
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "", ".", "..", "a%2Fb", "%61", "b;c", "a%2fb", "a%2F..", "..%2fa", "b;c%2Fa"}), 0, 6).Draw(t, "path"), "/")
		method := rapid.SampledFrom([]string{"GET", "HEAD", "POST", "get", "PURGE"}).Draw(t, "method")

		p, err := Parse("policy.yaml", []byte(b.String()))
		if err != nil {
			agreeOnTies(t, b.String(), err)
			return
		}
		want, tie := oracle{newReport("").document([]byte(b.String()))}.all(method, path)
		if tie {
			t.Fatalf("%s %s is a tie that was not reported", method, path)
		}
		if got := verdictOf(p, method, path); got.String() != want.String() {
			t.Fatalf("%s %q: got %s, want %s", method, path, got, want)
		}
	})
}

// agreeOnTies checks that the example of every tie is one.
func agreeOnTies(t *rapid.T, content string, err error) {
	var mistakes Mistakes
	if !errors.As(err, &mistakes) {
		t.Fatal(err)
	}
	file := newReport("").document([]byte(content))
	for _, m := range mistakes {
		_, path, ok := strings.Cut(m.Message, "and both match ")
		if !ok {
			t.Fatal(err)
		}
		found := false
		for _, method := range []string{"GET", "HEAD", "POST", "PURGE"} {
			// The pattern that beats both of them does not make it less of a tie.
			segments := readingsOf(path)[15]
			count := 0
			for _, e := range file.Endpoints.all() {
				if (oracle{file}).matching(e.Match, method, segments) != "" {
					count++
				}
			}
			if (oracle{file}).matching(file.Exempt.Match, method, segments) != "" {
				count++
			}
			found = found || count > 1
		}
		if !found && path != "/" {
			t.Fatalf("%s: not both match it", m.Message)
		}
	}
}

// FuzzParse feeds the reader with anything. It must not crash, and what it
// refuses must say where.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml", "testdata/*/*.json", "../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := Parse("policy.yaml", content)
		if err == nil {
			demands(p, p.Match("GET", "/"), "")
			return
		}
		var mistakes Mistakes
		if !errors.As(err, &mistakes) || len(mistakes) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, m := range mistakes {
			if m.Line < 1 || m.Column < 1 || m.Message == "" {
				t.Errorf("%+v says not where or what", m)
			}
		}
	})
}
