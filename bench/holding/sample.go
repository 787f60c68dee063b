package holding

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/sluice-go/sluice/bench/keys"
)

// watched is a bucket of which each admission is recorded. To record all
// would be another load than the one to be measured.
type watched struct {
	rule   int // its index in the scenario
	entity string
}

// sample is the buckets to watch: the hottest of each rule, and others at
// random. It is the same in every process.
func (s *scenario) sample(n, each int) []watched {
	var all []watched
	for i, r := range s.rules {
		var entities []string
		switch r.of {
		case everybody:
			entities = []string{r.of.entity("", "")}
		case theKey:
			entities = slices.Concat(hottest(s.draw(n, 50_000, 0), each), random(n, each))
		case theAddress:
			entities = random(addresses, each)
		}
		slices.Sort(entities)
		for _, e := range slices.Compact(entities) {
			all = append(all, watched{i, e})
		}
	}
	return all
}

func hottest(drawn keys.Sequence, n int) []string {
	counts := map[string]int{}
	for i := range drawn.Len() {
		counts[drawn.At(i)]++
	}
	byCount := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return byCount[:min(n, len(byCount))]
}

func random(among, n int) []string {
	r := rand.New(rand.NewPCG(1, 3))
	var all []string
	for range n {
		all = append(all, keys.Text(r.IntN(among)))
	}
	return all
}

// marks says for each take of a caller which watched bucket each rule is
// about: its number plus one, or 0. Looking it up beforehand keeps it out of
// the measurement.
type marks [][]uint16

func (s *scenario) marks(sample []watched, asked, from keys.Sequence) marks {
	numbers := map[watched]uint16{}
	for i, w := range sample {
		numbers[w] = uint16(i + 1)
	}
	m := make(marks, len(s.rules))
	for i, r := range s.rules {
		m[i] = make([]uint16, asked.Len())
		for j := range m[i] {
			m[i][j] = numbers[watched{i, r.of.entity(asked.At(j), from.At(j))}]
		}
	}
	return m
}
