package memory

import (
	"bytes"
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
	// Each length is hashed in its own way, and every byte counts in each.
	for _, n := range []int{3, 4, 7, 8, 9, 15, 16, 17, 20, 24, 31, 32, 33, 40} {
		for at := 0; at+3 <= n; at++ {
			parts[fmt.Sprintf("bytes from %d of %d", at, n)] = func(i int) sluice.Key {
				text := bytes.Repeat([]byte{'x'}, n)
				text[at], text[at+1], text[at+2] = 'a'+byte(i&31), 'a'+byte(i>>5&31), 'a'+byte(i>>10&31)
				return sluice.Key{Entity: string(text)}
			}
		}
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
