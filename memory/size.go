package memory

import (
	"slices"

	"github.com/sluice-go/sluice/bucket"
)

// bucketSize is what a bucket with an entity of that length takes up, with
// its share of the index and of what is allocated ahead.
func bucketSize(entity int) int64 {
	const slot = (8*8 + 1) * 5 / 4 // tables are four fifths full
	if entity > short {
		return slot + int64(entity-longCut)
	}
	return slot
}

// extSize is what an Ext takes up, its slices counted by their capacity.
func extSize(x *bucket.Ext) int64 {
	if x == nil {
		return 0
	}
	const header, flight, hold = 104, 64, 32 // a flight with an id of the usual length
	return header + 8*int64(cap(x.Counts)) + flight*int64(cap(x.Flights)) + hold*int64(cap(x.Holds))
}

func cloneExt(x *bucket.Ext) *bucket.Ext {
	if x == nil {
		return nil
	}
	c := *x
	c.Counts, c.Flights, c.Holds = slices.Clone(x.Counts), slices.Clone(x.Flights), slices.Clone(x.Holds)
	return &c
}
