// Package inprocess is the suite of limiters that keep their state in the
// process: Sluice's memory store beside its peers.
package inprocess

import (
	"time"

	"github.com/sluice-go/sluice/bench/contest"
)

// limit is what every key of a contender is limited to. Peers that count in
// windows allow Burst per Window; the others are buckets of Burst tokens, one
// of which comes back Every so often.
type limit struct {
	Burst  int
	Every  time.Duration
	Window time.Duration
}

// Limits under which the contenders run. Burst × Every stays below 290 years,
// which is as much as throttled can express.
var (
	// generous never refuses, and no bucket is full again during a run, so
	// that none can be forgotten: each take does all of its work.
	generous = limit{Burst: 10_000_000, Every: 6 * time.Minute, Window: 24 * time.Hour}
	// oneKey never refuses a single key that all callers share.
	oneKey = limit{Burst: 1_000_000_000, Every: 3 * time.Second, Window: 24 * time.Hour}
	// strict refuses nearly everything.
	strict = limit{Burst: 10, Every: time.Hour, Window: 24 * time.Hour}
)

// contender is one limiter. open makes an empty one with room for that many
// keys.
type contender struct {
	Name string
	open func(l limit, keys int) (*instance, error)

	// slow says that it takes minutes to fill with the largest number of keys.
	slow bool

	// expiring is open with the shortest clean-up the limiter has, or nil if
	// it forgets nothing by itself.
	expiring func(l limit, keys int) (*instance, error)
}

// instance is a contender that is set up.
type instance struct {
	caller func() contest.Take
	close  func()

	// size is how many keys it has, or nil if it cannot tell.
	size func() int
}

const (
	sluiceName    = "Sluice"
	goLimiterName = "go-limiter"
)

// peers are the libraries Sluice is compared with.
func peers() []contender {
	return []contender{
		{Name: "x/time/rate in a sync.Map", open: openXRate, slow: true},
		{Name: goLimiterName, open: openGoLimiter, expiring: openGoLimiterExpiring},
		{Name: "throttled", open: openThrottled},
		{Name: "ulule/limiter", open: openUlule, slow: true, expiring: openUluleExpiring},
		{Name: "httprate", open: openHTTPRate, expiring: openHTTPRate},
	}
}

func sluices() contender {
	return contender{Name: sluiceName, open: openSluice, expiring: openSluice}
}

// floors does the least that a limiter of many keys can do with Go's own map.
func floors() contender {
	return contender{Name: "floor: sharded map, mutex, counter", open: openFloor}
}
