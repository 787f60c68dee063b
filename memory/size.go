package memory

import "github.com/sluice-go/sluice/bucket"

// recordSize is what a record with an entity of that length takes up, with its
// share of the tags and of what is allocated ahead.
func recordSize(class uint8, entity int) int64 {
	slot := int64(64<<class+1) * 5 / 4 // tables are four fifths full
	if entity > short {
		slot += int64(entity - longCut)
	}
	return slot
}

// extSize is what an Ext takes up, its slices counted by their capacity.
func extSize(x *bucket.Ext) int64 {
	if x == nil {
		return 0
	}
	const header, holder, hold, ticket = 128, 64, 32, 40 // a holder with an id of the usual length
	return header + 8*int64(cap(x.Counts)) + holder*int64(cap(x.Holders)) + hold*int64(cap(x.Holds)) + ticket*int64(cap(x.Tickets))
}
