package failover

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// quota is a [Quota] at work, with what was decided under it.
type quota struct {
	tier   string
	limit  sluice.Limit // in the caller's tokens
	bridge time.Duration
	*counts
}

type counts struct{ allowed, refused atomic.Int64 }

const maxFactor = 1_000_000

func newQuota(tier string, q Quota) (*quota, error) {
	limit, err := q.scaled()
	if err != nil {
		return nil, fmt.Errorf("failover: Quotas[%q]: %w", tier, err)
	}
	if q.Bridge < 0 || q.Bridge > maxBridge {
		return nil, fmt.Errorf("failover: Quotas[%q]: bridge: %s: must be 0 to %s", tier, q.Bridge, maxBridge)
	}
	return &quota{tier, limit, q.Bridge, new(counts)}, nil
}

// part returns the limit of one of some nodes that share l.
func part(l sluice.Limit, nodes int) (limit sluice.Limit, ok bool) {
	limit, err := Quota{Limit: l, Factor: 1000 * int64(max(nodes, 1))}.scaled()
	return limit, err == nil
}

const (
	maxBridge    = time.Minute
	bridgedPart  = 20  // of what a limit lets pass at once
	bridgedAgain = 300 // seconds until what was used of it is back
)

// bridged returns what one of some nodes lets pass of l in a short outage: its
// part of what l lets pass in a time that long, or at once, whichever is more.
// See [Quota] for why it is not a part of l itself.
func bridged(l sluice.Limit, long time.Duration, nodes int) (limit sluice.Limit, ok bool) {
	if l.Algorithm == sluice.Concurrency {
		return l, false
	}
	most := float64(l.Capacity().Thousandths()) / bridgedPart
	if l.Period > 0 { // a calendar's window has none
		most = max(most, float64(l.Amount.Thousandths())*float64(long)/float64(l.Period))
	}
	burst := int64(min(most, float64(sluice.MaxThousandths))) / int64(max(nodes, 1))
	if burst < bridgedAgain {
		return l, false
	}
	return sluice.Limit{Amount: sluice.Thousandths(burst / bridgedAgain), Period: time.Second, Burst: sluice.Thousandths(burst)}, true
}

// scaled is the limit that admits, at plain cost, what q.Limit admits at cost
// times factor: a bucket divided by the factor that takes the factor times
// longer to come back. What does not divide is rounded towards less. Dividing
// the limit once, rather than multiplying each cost, lets local answers be in
// the caller's own tokens.
func (q Quota) scaled() (sluice.Limit, error) {
	l, factor := q.Limit, q.Factor
	if factor == 0 {
		factor = 1000
	}
	if factor < 1 || factor > maxFactor {
		return l, fmt.Errorf("factor: %d: must be 1 to %d thousandths", factor, maxFactor)
	}
	if err := l.Validate(); err != nil {
		return l, err
	}
	switch {
	case l.Algorithm == sluice.Concurrency:
		return l, fmt.Errorf("limit: %s: must be a rate, since a local quota counts no work in flight", l)
	case factor == 1000:
		return l, nil
	case l.Algorithm == sluice.TokenBucket:
		l.Burst = sluice.Thousandths(l.Capacity().Thousandths() * 1000 / factor)
		us := l.Period.Microseconds()
		us = us/1000*factor + (us%1000*factor+999)/1000
		if us > int64(time.Duration(1<<62)/time.Microsecond) {
			return l, fmt.Errorf("factor: %d: is too large for %s", factor, q.Limit)
		}
		l.Period = time.Duration(us) * time.Microsecond
	default:
		l.Amount = sluice.Thousandths(l.Amount.Thousandths() * 1000 / factor)
	}
	if l.Capacity().Thousandths() == 0 || l.Algorithm == sluice.TokenBucket && l.Burst.Thousandths() == 0 {
		return l, fmt.Errorf("factor: %d: leaves nothing of %s", factor, q.Limit)
	}
	return l, l.Validate()
}
