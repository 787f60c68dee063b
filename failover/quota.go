package failover

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// quota is a [Quota] at work, with what was decided under it.
type quota struct {
	tier  string
	limit sluice.Limit // in the caller's tokens
	*counts
}

type counts struct{ allowed, refused atomic.Int64 }

const maxFactor = 1_000_000

func newQuota(tier string, q Quota) (*quota, error) {
	limit, err := q.scaled()
	if err != nil {
		return nil, fmt.Errorf("failover: Quotas[%q]: %w", tier, err)
	}
	return &quota{tier, limit, new(counts)}, nil
}

// part returns the limit of one of some nodes that share l.
func part(l sluice.Limit, nodes int) (sluice.Limit, error) {
	return Quota{l, 1000 * int64(max(nodes, 1))}.scaled()
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
