package memory

import (
	"fmt"
	"testing"

	"github.com/sluice-go/sluice"
)

// TestNobodyChoosesWhereKeysMeet: whichever part of the key is varied, the
// addresses are spread, so that no choice of names makes look-ups slow.
func TestNobodyChoosesWhereKeysMeet(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	parts := map[string]func(i int) sluice.Key{
		"namespace": func(i int) sluice.Key { return sluice.Key{Namespace: fmt.Sprint(i)} },
		"entity":    func(i int) sluice.Key { return sluice.Key{Entity: fmt.Sprint(i)} },
		"resource":  func(i int) sluice.Key { return sluice.Key{Entity: "e", Resource: fmt.Sprint(i)} },
		"limit":     func(i int) sluice.Key { return sluice.Key{Entity: "e", Resource: "r", Limit: fmt.Sprint(i)} },
		"sequence":  func(i int) sluice.Key { return sluice.Key{Entity: string(rune(i))} },
	}
	for part, key := range parts {
		const keys, places = 1 << 14, 1 << 10
		var count [places]int
		hashes := map[uint64]int{}
		for i := range keys {
			k := key(i)
			count[s.address(0, s.hashSubject(&k), &k)%places]++
			hashes[s.hashSubject(&k)]++
		}
		if part != "limit" && len(hashes) < keys {
			t.Errorf("%s: %d keys have %d hashes", part, keys, len(hashes))
		}
		// 16 a place on average; 60 is eleven standard deviations away.
		for place, n := range count {
			if n > 60 {
				t.Errorf("%s: %d of %d keys meet in place %d of %d", part, n, keys, place, places)
			}
		}
	}
}
