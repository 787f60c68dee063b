package keys

import "testing"

func TestKeysAreDistinctAndOfOneLength(t *testing.T) {
	const n = 100_000
	all := All(n)
	if all.Len() != n {
		t.Fatalf("got %d keys, want %d", all.Len(), n)
	}
	seen := make(map[string]bool, n)
	for i := range n {
		k := all.At(i)
		if len(k) != Length || k != Text(i) {
			t.Fatalf("key %d is %q", i, k)
		}
		seen[k] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d keys are distinct", len(seen), n)
	}
}

func TestZipfIsSkewedAndRepeatable(t *testing.T) {
	const n = 50_000
	s := Zipf(1000, n, 7)
	if s != Zipf(1000, n, 7) {
		t.Error("the same seed gave another sequence")
	}
	hot := 0
	for i := range n {
		if s.At(i) == Text(0) {
			hot++
		}
	}
	if share := float64(hot) / n; share < 0.08 || share > 0.3 {
		t.Errorf("the hottest of 1000 keys got %.3f of the traffic", share)
	}
}

func TestUniformReachesAllKeys(t *testing.T) {
	s := Uniform(10, 1000, 1)
	seen := make(map[string]bool)
	for i := range s.Len() {
		seen[s.At(i)] = true
	}
	if len(seen) != 10 {
		t.Errorf("reached %d of 10 keys", len(seen))
	}
}
