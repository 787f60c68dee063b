package abuse

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// loginEvery is how often a failed login is logged at most.
const loginEvery = 10 * time.Second

// Logins counts failed logins: credentials that were sent and are not valid. It
// logs one in ten seconds, and with it how many there were since the last one,
// so that guessing fills no disk. It is safe for concurrent use; a nil Logins
// counts nothing.
type Logins struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64
	since  int64
	next   time.Time
}

// NewLogins returns counters at 0.
func NewLogins(log *slog.Logger) *Logins {
	return &Logins{log: log, counts: map[string]int64{"key": 0, "token": 0, "api": 0}}
}

// Failed notes a failed login: with a "key" or "token" to what the policy
// limits, or at the "api". The address is masked.
func (l *Logins) Failed(ctx context.Context, kind, reason, address string) {
	if l == nil {
		return
	}
	now := time.Now()
	l.mu.Lock()
	l.counts[kind]++
	l.since++
	count, due := l.since, !now.Before(l.next)
	if due {
		l.since, l.next = 0, now.Add(loginEvery)
	}
	l.mu.Unlock()
	if due {
		l.log.InfoContext(ctx, "login failed", "kind", kind, "reason", reason, "address", Mask(address, 4), "count", count)
	}
}

// Counts returns how many there were, by kind.
func (l *Logins) Counts() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int64{}
	for kind, n := range l.counts {
		counts[kind] = n
	}
	return counts
}
