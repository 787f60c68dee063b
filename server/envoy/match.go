package envoy

import (
	"strings"

	api "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

type entry = api.RateLimitDescriptor_Entry

// match is how a descriptor was found, with room that is used again.
type match struct {
	// shares has, for each entry, the pattern whose counter it shares, or "".
	// It is empty if there is none.
	shares []string

	joined []byte
}

// find is the rule for a descriptor, or nil. Of each level it tries key and
// value, then the wildcards in the order of the file, then the key alone; and
// a rule must be exactly as deep as the descriptor.
func (n *node) find(entries []*entry, m *match) *rule {
	m.shares = m.shares[:0]
	for i, e := range entries {
		next, wild := n.next(e, m)
		if next == nil {
			return nil
		}
		if wild != "" && next.share {
			if len(m.shares) == 0 {
				for range entries {
					m.shares = append(m.shares, "")
				}
			}
			m.shares[i] = withoutKey(wild, e.GetKey())
		}
		if i == len(entries)-1 {
			return next.rule
		}
		n = next
	}
	return nil
}

// next is the child for an entry, and the wildcard by which it was found.
func (n *node) next(e *entry, m *match) (*node, string) {
	if len(n.children) == 0 {
		return nil, ""
	}
	m.joined = append(append(append(m.joined[:0], e.GetKey()...), '_'), e.GetValue()...)
	if child := n.children[string(m.joined)]; child != nil {
		return child, ""
	}
	for i := range n.wild {
		if w := &n.wild[i]; len(m.joined) >= len(w.prefix) && string(m.joined[:len(w.prefix)]) == w.prefix {
			return w.node, w.key
		}
	}
	return n.children[e.GetKey()], ""
}

// withoutKey is the value's part of a wildcard: "files/*" of "path_files/*".
func withoutKey(wild, key string) string {
	if rest, ok := strings.CutPrefix(wild, key); ok {
		if value, ok := strings.CutPrefix(rest, "_"); ok {
			return value
		}
	}
	return wild
}

// statsKey is the name under which a rule's hits are counted if that depends
// on the request. envoyproxy/ratelimit has these rules: detailed_metric shows
// every value, or the pattern where a counter is shared; else values are shown
// that the file names or that value_to_metric asks for.
func (n *node) statsKey(domain string, r *rule, entries []*entry, m *match) string {
	var b strings.Builder
	b.WriteString(domain)
	for i, e := range entries {
		b.WriteByte('.')
		value, show := e.GetValue(), true
		if r.detailed {
			if len(m.shares) > 0 {
				show = value != ""
				if m.shares[i] != "" {
					value, show = m.shares[i], true
				}
			}
		} else {
			next, wild := n.next(e, m)
			switch {
			case wild != "" && (next.share || !next.valueToMetric):
				value = withoutKey(wild, e.GetKey())
			case wild == "" && !next.valueToMetric && !n.named(e, m):
				value = ""
			}
			show = value != ""
			n = next
		}
		b.WriteString(e.GetKey())
		if show {
			b.WriteByte('_')
			b.WriteString(value)
		}
	}
	return b.String()
}

// named reports whether the file has this very key and value.
func (n *node) named(e *entry, m *match) bool {
	m.joined = append(append(append(m.joined[:0], e.GetKey()...), '_'), e.GetValue()...)
	return n.children[string(m.joined)] != nil
}
