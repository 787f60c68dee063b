package dynamodb

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// skew compares this machine's clock with the service's. DynamoDB has no clock that
// a write could use, so buckets go by those of the nodes. The service tells its own
// in the Date of each response, to the second.
type skew struct {
	mu     sync.Mutex
	ahead  time.Duration // of this machine's clock; 0 if it agrees within a second
	known  bool
	warned time.Time
}

const (
	// WarnSkew is how far this machine's clock may be off before that is logged.
	WarnSkew = 2 * time.Second

	warnEvery = time.Minute
)

// saw is told the Date of a response to a request that was sent at asked.
func (s *skew) saw(date string, asked, answered time.Time, log *slog.Logger) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	// The service's clock showed something from at to a second later, at some
	// moment between asked and answered.
	ahead := time.Duration(0)
	if d := asked.Sub(at.Add(time.Second)); d > 0 {
		ahead = d
	} else if d := answered.Sub(at); d < 0 {
		ahead = d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead, s.known = ahead, true
	if ahead.Abs() > WarnSkew && answered.Sub(s.warned) > warnEvery {
		s.warned = answered
		log.Warn("dynamodb: this machine's clock differs from the service's: limits may be exceeded by their rate times the difference between nodes",
			"ahead", ahead.Round(time.Millisecond))
	}
}

// Skew returns how far this machine's clock is ahead of the service's, at least, and
// whether it is known. It is 0 if they agree within the second that the service tells.
func (db *DB) Skew() (ahead time.Duration, known bool) {
	db.skew.mu.Lock()
	defer db.skew.mu.Unlock()
	return db.skew.ahead, db.skew.known
}
