package schedule

import (
	"slices"
	"sort"
)

// fullness remembers stretches of time in which no window had room when they
// were last searched, so that the next search starts behind them. It may be
// out of date, which costs nothing but room that somebody gave back lately;
// it is forgotten with the plan it belongs to.
type fullness struct {
	spans []span // in order, apart from each other
}

// maxSpans bounds what is remembered.
const maxSpans = 512

// skip is t, or the end of the stretch that t is in.
func (f *fullness) skip(t int64) int64 {
	i := sort.Search(len(f.spans), func(i int) bool { return f.spans[i].to > t })
	if i < len(f.spans) && f.spans[i].from <= t {
		return f.spans[i].to
	}
	return t
}

// add notes that [from, to) has no room.
func (f *fullness) add(from, to int64) {
	if from >= to {
		return
	}
	i := sort.Search(len(f.spans), func(i int) bool { return f.spans[i].to >= from })
	j := i
	for j < len(f.spans) && f.spans[j].from <= to {
		from, to = min(from, f.spans[j].from), max(to, f.spans[j].to)
		j++
	}
	f.spans = slices.Replace(f.spans, i, j, span{from, to})
	if len(f.spans) > maxSpans {
		f.spans = nil
	}
}
