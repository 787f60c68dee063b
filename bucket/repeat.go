package bucket

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/sluice-go/sluice"
)

// Print tells takes with one id apart by what their callers asked for: by
// [sluice.Take.Asked], or else by what is wanted of which buckets. The limits do
// not count: they may change before a take is repeated.
func Print(t *sluice.Take) []byte {
	b := []byte{0, 0}
	if t.UpTo {
		b[0] = 1
	}
	if t.Lease {
		b[1] = 1
	}
	words := []string{t.Asked}
	if t.Asked == "" {
		for i := range t.Demands {
			d := &t.Demands[i]
			b = binary.BigEndian.AppendUint64(b, uint64(d.Charge().Thousandths()))
			words = append(words, d.Key.Namespace, d.Key.Entity, d.Key.Resource, d.Key.Limit)
		}
	}
	for _, w := range words {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(w))), w...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

// Repeats reports whether t asks for the same as a take whose id, print and
// kind are remembered, and which old tells apart as earlier versions did. A peek
// asks for what either kind was told.
func Repeats(print []byte, t *sluice.Take, old func(*sluice.Take) []byte) bool {
	same := func(t *sluice.Take) bool { return slices.Equal(print, Print(t)) || slices.Equal(print, old(t)) }
	if same(t) {
		return true
	}
	other := *t
	other.Lease = !t.Lease
	return t.Peek && same(&other)
}

// Then are the demands of a take that is repeated as they were the first time.
// What only tells how to answer is as it is now; of a bucket that is not asked
// for any more, callers are not told.
func Then(first, now []sluice.Demand) []sluice.Demand {
	then := slices.Clone(first)
	for i := range then {
		d := &then[i]
		d.Unannounced, d.Cost = true, d.Charge()
		for j := range now {
			if now[j].Key != d.Key {
				continue
			}
			if d.Unannounced, d.Level = now[j].Unannounced, now[j].Level; now[j].Charge() == d.Cost {
				d.Cost = now[j].Cost
			}
		}
	}
	return then
}
