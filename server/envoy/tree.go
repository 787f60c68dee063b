package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// node is one descriptor of the files.
type node struct {
	children map[string]*node // by key, or key and value joined by _
	wild     []wildcard       // of the children, those that end in *, in order
	rule     *rule

	wildcard      bool
	share         bool
	valueToMetric bool
}

type wildcard struct {
	prefix string // without the *
	key    string // with it
	node   *node
}

// domain is the root of what the files say about one domain.
type domain struct {
	node
	resource string // in the keys of its buckets
}

// tree is everything that was loaded.
type tree struct {
	domains map[string]*domain
	stats   map[string]*stats // of the rules, by their place in the files
}

// file is one file of the configuration.
type file struct {
	name string
	root *yamlRoot
}

// newTree builds a tree of files, with the statistics of rules that were there
// before. Its errors are worded as in envoyproxy/ratelimit.
func newTree(files []file, mergeDomains bool, before map[string]*stats) (*tree, error) {
	t := &tree{domains: map[string]*domain{}, stats: map[string]*stats{}}
	for _, f := range files {
		if f.root.Domain == "" {
			return nil, fmt.Errorf("%s: config file cannot have empty domain", f.name)
		}
		d := t.domains[f.root.Domain]
		if d != nil && !mergeDomains {
			return nil, fmt.Errorf("%s: duplicate domain '%s' in config file", f.name, f.root.Domain)
		}
		if d == nil {
			d = &domain{node{children: map[string]*node{}}, keyPart(appendEscaped(nil, f.root.Domain))}
			t.domains[f.root.Domain] = d
		}
		b := builder{file: f.root, tree: t, before: before}
		if err := b.load(&d.node, f.root.Domain+".", f.root.Descriptors, false); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return t, nil
}

type builder struct {
	file   *yamlRoot
	tree   *tree
	before map[string]*stats
}

// stats are those of a rule.
func (b *builder) stats(key string) *stats {
	s := b.before[key]
	if s == nil {
		s = &stats{}
	}
	b.tree.stats[key] = s
	return s
}

// load adds descriptors to a node. dynamic is whether the statistics' key of
// what is below depends on the request.
func (b *builder) load(n *node, parent string, descriptors []yamlDescriptor, dynamic bool) error {
	for i := range descriptors {
		d := &descriptors[i]
		if d.Key == "" {
			return fmt.Errorf("descriptor has empty key")
		}
		key := d.Key
		if d.Value != "" {
			key += "_" + d.Value
		}
		if n.children[key] != nil {
			return fmt.Errorf("duplicate descriptor composite key '%s'", parent+key)
		}
		child := &node{
			children: map[string]*node{}, wildcard: strings.HasSuffix(key, "*"),
			share: d.ShareThreshold, valueToMetric: d.ValueToMetric,
		}
		below := dynamic || d.ValueToMetric || child.wildcard && d.Value == ""
		if d.RateLimit != nil {
			r, err := newRule(d.RateLimit, d, b.file)
			if err != nil {
				return err
			}
			r.fullKey, r.dynamic = parent+key, below || r.detailed
			r.stats = b.stats(r.fullKey)
			child.rule = r
		}
		if d.ShareThreshold && !child.wildcard {
			return fmt.Errorf("share_threshold can only be used with wildcard values (ending with '*'), but found key '%s'", key)
		}
		if err := b.load(child, parent+key+".", d.Descriptors, below); err != nil {
			return err
		}
		n.children[key] = child
		if child.wildcard {
			n.wild = append(n.wild, wildcard{strings.TrimSuffix(key, "*"), key, child})
		}
	}
	return nil
}

// String writes the rules for people, as /rlconfig of envoyproxy/ratelimit
// does, but sorted.
func (t *tree) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.domains)) {
		t.domains[name].dump(&b)
	}
	return b.String()
}

func (n *node) dump(b *strings.Builder) {
	if r := n.rule; r != nil {
		fmt.Fprintf(b, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n",
			r.fullKey, r.current.Unit, r.current.RequestsPerUnit, r.shadow, r.quota)
	}
	for _, key := range slices.Sorted(maps.Keys(n.children)) {
		n.children[key].dump(b)
	}
}
