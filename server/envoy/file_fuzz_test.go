package envoy

import (
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// FuzzFile reads any file: it is an error, or rules that are valid and no more
// than the file has room for.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"domain: x\ndescriptors:\n  - key: a\n    value: b*\n    share_threshold: true\n    rate_limit: {unit: day, requests_per_unit: 1}\n    descriptors:\n      - key: c\n",
		"domain: x\nalgorithm: token_bucket\nhold: true\ndescriptors: [{key: a, rate_limit: {period: 90s, requests_per_unit: 5, burst: 7}}]",
		"domain: x\ndescriptors: [{key: a, rate_limit: {unlimited: true, name: n, replaces: [{name: m}]}}]",
		"a: &a [*a]", "domain: &d x\ndescriptors: [{key: *d}]", "? {", "domain: !!binary aGk=", "<<: {domain: x}", "- - - -",
		"domain: x\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: 4294967295, burst: 4294967295, algorithm: token_bucket}}]",
		"a: &a [{key: a}, {key: b}]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\ndescriptors: *c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		root, err := parseFile("a", content)
		if err != nil {
			return
		}
		tree, err := newTree([]file{{"a", root}}, false, nil)
		if err != nil {
			return
		}
		for _, domain := range tree.domains {
			check(t, &domain.node)
			var m match
			domain.find([]*api.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}, {Key: "c"}}, &m)
		}
		_ = tree.String()
	})
}

// check finds rules that no store would accept.
func check(t *testing.T, n *node) {
	t.Helper()
	if r := n.rule; r != nil && !r.unlimited {
		if err := r.limit.Validate(); err != nil {
			t.Fatalf("%s: %v", r.fullKey, err)
		}
	}
	for _, child := range n.children {
		check(t, child)
	}
}
