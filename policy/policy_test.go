package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// rules is a policy with n endpoints, each with its own limit in a tier, in
// the way of an API with many resources.
func rules(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nlimits:\n  global: {limit: 1000/s}\n  api: {limit: 1000/s, match: /api/**}\nendpoints:\n")
	for i := range n {
		fmt.Fprintf(&b, "  e%d: {match: ['GET /api/v1/resource%d/{id}', 'POST /api/v1/resource%d'], cost: %d}\n", i, i, i, i%7+1)
	}
	return b.String()
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	p := mustParse(t, rules(100))
	dst := make([]sluice.Demand, 0, 16)
	found := resolved(p, p.Match("GET", "/api/v1/resource7/42"), "")
	for _, path := range []string{
		"/api/v1/resource7/42", "/api/v1/resource99", "/", "/nowhere/at/all/that/is/known", "/api/v1/resource7/caf%C3%A9",
		"/api//v1/../v1/%72esource7/4%2F2;x=1", // made once
	} {
		p.Match("GET", path)
		if n := testing.AllocsPerRun(100, func() {
			dst = dst[:0]
			r := p.Match("get", path)
			for i := range r.Sets {
				dst = r.Sets[i].Append(dst, found, "user:42")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// Ten thousand rules must not cost more than twice as much as ten. The
// quickest of many rounds is what counts, for the machine may be busy.
func TestMatchTimeDoesNotDependOnTheNumberOfRules(t *testing.T) {
	few, many := mustParse(t, rules(10)), mustParse(t, rules(10_000))
	paths := func(n int) []string {
		list := make([]string, 64)
		for i := range list {
			list[i] = fmt.Sprintf("/api/v1/resource%d/%d", i*n/len(list), i)
		}
		return list
	}
	round := func(p *Policy, paths []string) time.Duration {
		start := time.Now()
		for range 20 {
			for _, path := range paths {
				p.Match("GET", path)
			}
		}
		return time.Since(start)
	}
	quickest := [2]time.Duration{time.Hour, time.Hour}
	fewPaths, manyPaths := paths(10), paths(10_000)
	for range 50 {
		quickest[0] = min(quickest[0], round(few, fewPaths))
		quickest[1] = min(quickest[1], round(many, manyPaths))
	}
	t.Logf("%s with 10 rules, %s with 10000", quickest[0]/1280, quickest[1]/1280)
	if quickest[1] > 2*quickest[0] {
		t.Errorf("%s with 10 rules, %s with 10000", quickest[0], quickest[1])
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		p := mustParse(b, rules(n))
		for name, path := range map[string]string{
			"plain":   fmt.Sprintf("/api/v1/resource%d/42", n/2),
			"escaped": fmt.Sprintf("/api/v1/resource%d/caf%%C3%%A9", n/2),
			"odd":     fmt.Sprintf("/api//v1/../v1/%%72esource%d/4%%2F2;x=1", n/2),
		} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.Match("GET", path)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	content := []byte(rules(10_000))
	for b.Loop() {
		if _, err := Parse("policy.yaml", content); err != nil {
			b.Fatal(err)
		}
	}
}

// A path of any length is read to its end, in a time that grows with it alone.
func TestLongPaths(t *testing.T) {
	p := mustParse(t, crossing)
	for _, part := range []string{"/..", "/a", "/%2e%2e;x%2F", "//", "/admin", "/.", "%2F"} {
		path := strings.Repeat(part, 100_000)
		if r := p.Match("GET", path+"/../../api/search"); len(r.Sets) == 0 {
			t.Errorf("%s…: no limit applies", part)
		}
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	bomb := "version: 1\nentities:\n  a0: &a0 {metadata: {a: b, c: d, e: f, g: h}}\n"
	bomb += "x: &x0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("y%d: &x%d [*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d,*x%d]\n", i, i+1, i, i, i, i, i, i, i, i, i, i)
	}
	wide := "version: 1\nidentity:\n  keys: &k\n" + strings.Repeat("    - {name: a, sha256: b}\n", 2000)
	list := "version: 1\nallow: &a [" + strings.Repeat("user:1,", 400) + "]\nlimits:\n"
	for i := range 1000 {
		list += fmt.Sprintf("  s%d: {limit: 1/s, match: *a}\n", i)
	}
	overlap := "version: 1\nlimits: {a: {limit: 1/s}}\nendpoints:\n"
	for i := range 22 {
		overlap += fmt.Sprintf("  e%d: {match: '/**/n%d/**'}\n", i, i)
	}
	var many strings.Builder
	many.WriteString("version: 1\nexempt:\n  match:\n")
	for i := range maxPatterns + 1 {
		fmt.Fprintf(&many, "  - /%d\n", i)
	}
	for name, test := range map[string]struct{ content, want string }{
		"bytes":         {strings.Repeat("#", MaxFile+1), "is larger than"},
		"not text":      {"version: 1\xff", "not UTF-8"},
		"alias bomb":    {bomb, "is not a setting here"},
		"wide":          {wide, "hash of the key"},
		"aliased lists": {list, "values, counting those behind aliases"},
		"overlap":       {overlap, "too many patterns overlap"},
		"many patterns": {many.String(), "50001 patterns, and at most 50000"},
		"deep flow":     {"version: 1\nlimits: " + strings.Repeat("{a: ", 9000), "YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("policy.yaml", []byte(test.content))
			var mistakes Mistakes
			if !errors.As(err, &mistakes) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%.300v", err)
			}
			if len(mistakes) > maxMistakes+1 {
				t.Errorf("%d mistakes", len(mistakes))
			}
		})
	}
}

func TestLists(t *testing.T) {
	p := mustParse(t, "version: 1\nallow: [10.0.0.0/8, '2001:db8::/32', 192.0.2.7, 'ip:198.51.100.0/24', user:42, '::ffff:203.0.113.0/120']\ndeny: key:leaked\n")
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "11.1.2.3": false, "2001:db8:1::1": true, "2001:db9::1": false, "192.0.2.7": true, "192.0.2.8": false,
		"::ffff:10.1.2.3": true, "198.51.100.9": true, "203.0.113.5": true, "2001:db8::1%eth0": true,
	} {
		if got := p.Allow.HasAddress(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if p.Allow.HasAddress(netip.Addr{}) || !p.Allow.HasEntity("user:42") || p.Allow.HasEntity("user:43") || !p.Deny.HasEntity("key:leaked") {
		t.Error("wrong callers on the lists")
	}
	if p.Allow.Empty() || !new(List).Empty() {
		t.Error("Empty is wrong")
	}
}

func TestEntitiesOfHeadersFitInAKey(t *testing.T) {
	p := mustParse(t, "version: 1\nlimits: {t: {per: 'header:x-tenant', limit: 1/s}}\n")
	s := p.Match("GET", "/").Sets[0]
	if got := s.Entity("acme"); got != "header:X-Tenant:acme" {
		t.Error(got)
	}
	long, other := s.Entity(strings.Repeat("x", 300)), s.Entity(strings.Repeat("x", 299)+"y")
	if len(long) > sluice.MaxKeyPart || long == other {
		t.Error(long, other)
	}
	d := s.Append(nil, resolved(p, p.Match("GET", "/"), ""), "e")
	if want := (sluice.Demand{Key: sluice.Key{Namespace: "default", Entity: "e", Resource: "t", Limit: "requests"}, Limit: sluice.Per(1, time.Second), Cost: sluice.Tokens(1), Level: sluice.LevelResource}); d[0] != want {
		t.Errorf("%+v", d[0])
	}
}

func TestMergedRoutesAreBoundedAndStrict(t *testing.T) {
	p := mustParse(t, `
version: 1
limits:
  all: {limit: {rpm: 100/minute, n: 5 concurrent}}
  one: {limit: 100/s, match: /a/b}
endpoints:
  pair: {match: "/a/{x}", cost: {rpm: 3}, criticality: critical, on_unavailable: allow}
  deep: {match: "/a/{x}/{y}", cost: 7, shadow: true, on_unavailable: deny}
`)
	r := p.Match("GET", "/a/b%2Fc")
	if r.Endpoint != "deep" || !r.Critical || r.Cost.Thousandths() != 7*sluice.Token {
		t.Errorf("%+v", r)
	}
	s := demands(p, r, "")
	if len(s) != 1 {
		t.Fatalf("%+v", s)
	}
	n, rpm := s[0][0], s[0][1]
	if rpm.Cost.Thousandths() != 7*sluice.Token || !rpm.Critical || rpm.Shadow || rpm.OnUnavailable != sluice.Deny || n.Cost.Thousandths() != sluice.Token {
		t.Errorf("%+v", s[0])
	}
	if p.Match("GET", "/a/b%2Fc") != r {
		t.Error("made anew each time")
	}
}
