package policy

import (
	"cmp"
	"encoding/binary"
	"maps"
	"net/url"
	"slices"
	"strings"
)

const (
	maxStates      = 300_000
	maxTransitions = 500_000
	fewEdges       = 6 // up to here, looking at each is quicker than a map
)

// automaton finds which patterns match a path, all at once: each segment is
// one step from one state to the next, whatever the number of patterns. It is
// the deterministic form of the tree of patterns.
type automaton struct {
	states []state
}

// state is how much of which patterns has been seen.
type state struct {
	few    []edge           // literals that lead on, if they are few
	many   map[string]int32 // or if they are many
	other  int32            // where every other segment leads
	routes []*Route         // by method, if the path ends here
}

type edge struct {
	literal string
	to      int32
}

func (s *state) next(segment string) int32 {
	if s.many != nil {
		if to, ok := s.many[segment]; ok {
			return to
		}
		return s.other
	}
	for i := range s.few {
		if s.few[i].literal == segment {
			return s.few[i].to
		}
	}
	return s.other
}

// nextBytes is next for a segment that had to be decoded.
func (s *state) nextBytes(segment []byte) int32 {
	if s.many != nil {
		if to, ok := s.many[string(segment)]; ok { // does not allocate
			return to
		}
		return s.other
	}
	for i := range s.few {
		if s.few[i].literal == string(segment) {
			return s.few[i].to
		}
	}
	return s.other
}

// node is a place in the tree of patterns.
type node struct {
	literal map[string]int32
	one     int32 // child for *, or 0
	any     int32 // child for **, or 0
	loops   bool  // it is the place of a **
	accept  []int32
}

// builder makes an automaton of patterns.
type builder struct {
	nodes       []node
	states      []state
	places      [][]int32 // of nodes, by state
	from        []arrival // how each state was first reached, for examples
	ids         map[string]int32
	transitions int
}

type arrival struct {
	state   int32
	segment string
}

func newBuilder() *builder {
	return &builder{nodes: []node{{}}, ids: map[string]int32{}}
}

// add puts a pattern into the tree.
func (b *builder) add(id int32, p *Pattern) {
	at := int32(0)
	for _, seg := range p.segments {
		at = b.child(at, seg)
	}
	b.nodes[at].accept = append(b.nodes[at].accept, id)
}

func (b *builder) child(at int32, seg segment) int32 {
	fresh := int32(len(b.nodes))
	n := &b.nodes[at]
	switch seg.kind {
	case literalSegment:
		if to, ok := n.literal[seg.literal]; ok {
			return to
		}
		if n.literal == nil {
			n.literal = map[string]int32{}
		}
		n.literal[seg.literal] = fresh
	case oneSegment:
		if n.one != 0 {
			return n.one
		}
		n.one = fresh
	default:
		if n.any != 0 {
			return n.any
		}
		n.any = fresh
	}
	b.nodes = append(b.nodes, node{loops: seg.kind == anySegments})
	return fresh
}

// build makes the states. It reports false if there would be too many, which
// takes patterns with ** in the middle or wildcards early in many of them.
func (b *builder) build() bool {
	b.state([]int32{0}, arrival{})
	for id := int32(0); int(id) < len(b.places); id++ {
		if len(b.states) > maxStates || b.transitions > maxTransitions {
			return false
		}
		b.connect(id)
	}
	return true
}

// connect finds where a state leads.
func (b *builder) connect(id int32) {
	set := b.places[id]
	literals := map[string]bool{}
	for _, n := range set {
		for l := range b.nodes[n].literal {
			literals[l] = true
		}
	}
	b.states[id].other = b.state(b.move(set, "", false), arrival{id, ""})
	edges := make([]edge, 0, len(literals))
	for _, l := range slices.Sorted(maps.Keys(literals)) {
		to := b.state(b.move(set, l, true), arrival{id, l})
		edges = append(edges, edge{l, to})
	}
	b.transitions += len(edges)
	if len(edges) <= fewEdges {
		b.states[id].few = edges
		return
	}
	many := make(map[string]int32, len(edges))
	for _, e := range edges {
		many[e.literal] = e.to
	}
	b.states[id].many = many
}

// move is where a segment leads from a set of nodes.
func (b *builder) move(set []int32, literal string, known bool) []int32 {
	var to []int32
	for _, id := range set {
		n := &b.nodes[id]
		if n.loops {
			to = append(to, id)
		}
		if n.one != 0 {
			to = append(to, n.one)
		}
		if next, ok := n.literal[literal]; ok && known {
			to = append(to, next)
		}
	}
	return to
}

// state is the state for a set of nodes, and for those that a ** which stands
// for nothing leads to.
func (b *builder) state(set []int32, from arrival) int32 {
	for i := 0; i < len(set); i++ {
		if next := b.nodes[set[i]].any; next != 0 && !slices.Contains(set, next) {
			set = append(set, next)
		}
	}
	slices.Sort(set)
	set = slices.Compact(set)
	key := make([]byte, 0, 4*len(set))
	for _, n := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	if id, ok := b.ids[string(key)]; ok {
		return id
	}
	id := int32(len(b.states))
	b.ids[string(key)] = id
	b.states = append(b.states, state{})
	b.places = append(b.places, set)
	b.from = append(b.from, from)
	return id
}

// accepted are the patterns that match a path which ends in a state, in the
// order in which they were added.
func (b *builder) accepted(id int32) []int32 {
	var all []int32
	for _, n := range b.places[id] {
		all = append(all, b.nodes[n].accept...)
	}
	slices.Sort(all)
	return all
}

// example is a path that leads to a state.
func (b *builder) example(id int32) string {
	var segments []string
	for id != 0 {
		from := b.from[id]
		segments = append(segments, url.PathEscape(cmp.Or(from.segment, "x")))
		id = from.state
	}
	slices.Reverse(segments)
	return "/" + strings.Join(segments, "/")
}
