package catalog

import "time"

// UsageBatch is what one node has seen since its last batch. A node numbers
// its batches from 1 and sends the next one only after the one before was
// acknowledged, so the last number stored for it tells whether a batch that
// is sent again was already added. A node draws its name at random each time
// it starts.
type UsageBatch struct {
	Node string
	Seq  int64
	Rows []UsageRow // of any namespaces, each series and start at most once

	// Erased is the version of [ErasedGuard] in each namespace, as the node
	// knew it when it began to count; 0 if there is none.
	Erased map[string]int64
}

// Span is how long a time a usage row covers.
type Span string

// The spans that usage is kept for: by hour and by day, both in UTC, and one
// row for the whole life of a series.
const (
	Hourly Span = "hour"
	Daily  Span = "day"
	Total  Span = "total"
)

// start is the beginning of the hour or day that a time is in, and the zero
// time for a total.
func (s Span) start(at time.Time) time.Time {
	switch s {
	case Hourly:
		return at.UTC().Truncate(time.Hour)
	case Daily:
		return at.UTC().Truncate(24 * time.Hour)
	}
	return time.Time{}
}

// UsageRow is what was consumed in one series: by an entity, of a resource,
// under a limit, in the hour or day that begins at Start.
type UsageRow struct {
	Namespace, Entity, Resource, Limit string // Limit is the limit's name

	Span  Span
	Start time.Time // in UTC, at the beginning of an hour or day; zero in a total

	// Amount is the net consumption in thousandths of a token. It is below 0
	// while a node has written a refund before another has written the take.
	// Count is how many takes there were.
	Amount, Count int64

	// Last is when it was last taken, to the microsecond; zero if that is not
	// known. Adding a row keeps the later one.
	Last time.Time

	first time.Time // of the takes in it
}

// Seconds is Start in Unix seconds, and 0 in a total: what stores keep.
func (r *UsageRow) Seconds() int64 {
	if r.Span == Total {
		return 0
	}
	return r.Start.Unix()
}

// Microseconds is Last in Unix microseconds, and 0 if it is not known: what
// stores keep.
func (r *UsageRow) Microseconds() int64 {
	if r.Last.IsZero() {
		return 0
	}
	return r.Last.UnixMicro()
}

// Stored sets Start and Last to what stores keep of them.
func (r *UsageRow) Stored(seconds, microseconds int64) {
	r.Start, r.Last = time.Time{}, time.Time{}
	if r.Span != Total {
		r.Start = time.Unix(seconds, 0).UTC()
	}
	if microseconds != 0 {
		r.Last = time.UnixMicro(microseconds).UTC()
	}
}

// Series is what usage is counted by in a namespace.
type Series struct{ Entity, Resource, Limit string }

// UsageQuery selects rows of an entity, of a resource, or of both. [Store.Usage]
// needs one of them; [Store.SumUsage] takes none for the whole namespace.
//
// Usage lists rows of an entity in order of Resource, Limit, Start, and
// those of a resource alone in order of Entity, Limit, Start.
//
// SumUsage gives one row for each series, with Amount and Count summed over
// the time asked for, the latest Last and a zero Start, leaving out series
// without rows in it, in order of Entity, Resource, Limit, or, of a resource
// alone, in order of Entity, Limit.
type UsageQuery struct {
	Namespace        string
	Entity, Resource string
	Span             Span
	From, To         time.Time // From <= Start < To; never zero, but ignored for totals
	Cursor           string    // "" starts; then UsagePage.Next
	Max              int       // rows a page; package catalog sets 1 to 1000
}

// Window is From and To in whole Unix seconds, rounded up: rows are between
// them as their [UsageRow.Seconds] say.
func (q *UsageQuery) Window() (from, to int64) {
	if q.Span == Total {
		return 0, 1
	}
	return ceilUnix(q.From), ceilUnix(q.To)
}

func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// UsagePage is one page of rows.
type UsagePage struct {
	Rows []UsageRow
	Next string // "" after the last page
}
