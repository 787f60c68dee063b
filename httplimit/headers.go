package httplimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/policy"
)

// The headers that responses carry, as net/http spells them.
const (
	hRateLimit = "Ratelimit"
	hPolicy    = "Ratelimit-Policy"
	hLimit     = "Ratelimit-Limit"
	hRemaining = "Ratelimit-Remaining"
	hReset     = "Ratelimit-Reset"
	hCost      = "X-Ratelimit-Cost"
	hSource    = "X-Ratelimit-Source"
	hAfter     = "X-Ratelimit-Reset-After"
	hDegraded  = "X-Ratelimit-Degraded"
	hRetry     = "Retry-After"
	hWarning   = "Warning"
)

// headerValue is where in the buffer the value of a header ends.
type headerValue struct {
	name string
	end  int
}

// Headers writes what the policy wants responses to tell about the call into
// h.
func (c *Call) Headers(h http.Header) {
	if len(c.Decision.Results) > 0 && !c.Decision.Demands[c.Decision.Decider].Shadow {
		want := &c.Policy.Headers
		if want.IETF {
			c.ietf(h)
		}
		if want.Legacy || want.XRateLimit || want.ResetAfter || want.Cost || want.Source || c.degraded() {
			c.others(want)
		}
	}
	if !c.Outcome.Passes() && c.RetryAfter > 0 && c.RetryAfter != sluice.Never {
		c.value(hRetry, strconv.AppendInt(c.buf, ceilSeconds(c.RetryAfter), 10))
	}
	if len(c.ends) > 0 {
		c.flush(h)
	}
}

// others writes all but what most policies want.
func (c *Call) others(want *policy.Headers) {
	if i := c.shown(); i >= 0 {
		if want.Legacy {
			c.plain(i, "", false)
		}
		if want.XRateLimit {
			c.plain(i, "X-", true)
		}
		if r := &c.Decision.Results[i]; want.ResetAfter && !r.Unknown {
			if after, ok := renewal(r); ok {
				ms := sluice.Thousandths(int64((after + time.Millisecond - 1) / time.Millisecond)) // which are written with three decimals
				c.value(hAfter, append(c.buf, ms.String()...))
			}
		}
	}
	if want.Cost {
		c.value(hCost, append(c.buf, c.cost().String()...))
	}
	if want.Source {
		c.value(hSource, append(c.buf, c.Decision.Source.String()...))
	}
	if want.Degraded && c.degraded() {
		c.value(hDegraded, append(c.buf, "true"...))
		c.value(hWarning, append(c.buf, `199 - "limits are kept by this node alone"`...))
	}
}

// cost is what the request costs, or else the take.
func (c *Call) cost() sluice.Amount {
	if c.Route != nil {
		return c.Route.Cost
	}
	return c.Decision.Demands[c.Decision.Decider].Charge()
}

// shown is the limit to tell about where there is room for one: the one that
// decided, unless callers are not told about it; then the one with the smallest
// share left; -1 for none.
func (c *Call) shown() int {
	d := &c.Decision
	if !d.Demands[d.Decider].Unannounced {
		return d.Decider
	}
	best, least := -1, 0.0
	for i := range d.Demands {
		demand := &d.Demands[i]
		share := float64(d.Results[i].Remaining.Thousandths()) / float64(demand.Limit.Capacity().Thousandths())
		if !demand.Shadow && !demand.Unannounced && (best < 0 || share < least) {
			best, least = i, share
		}
	}
	return best
}

func (c *Call) degraded() bool {
	return c.Decision.Source == sluice.Degraded || c.Decision.Source == sluice.Unknown
}

// value ends the value of a header.
func (c *Call) value(name string, buf []byte) {
	c.buf = buf
	c.ends = append(c.ends, headerValue{name, len(buf)})
}

// flush sets the headers whose values are in the buffer. They share one piece
// of memory.
func (c *Call) flush(h http.Header) {
	text, start := string(c.buf), 0
	for _, e := range c.ends {
		c.set(h, e.name, text[start:e.end])
		start = e.end
	}
	c.buf, c.ends = c.buf[:0], c.ends[:0]
}

// For how many headers memory is asked for at once: few at first, because a
// call may be used only once.
const (
	firstValues = 4
	moreValues  = 64
)

// set sets a header. The slices that headers are come from a larger one, and
// none is used twice: a handler may write into it.
func (c *Call) set(h http.Header, name, value string) {
	if c.values == nil {
		c.values = make([]string, firstValues)
	} else if len(c.values) == 0 {
		c.values = make([]string, moreValues)
	}
	v := c.values[:1:1]
	c.values = c.values[1:]
	v[0] = value
	h[name] = v
}

// ietf sets RateLimit-Policy and RateLimit, which are structured fields, as the
// IETF draft says (draft-ietf-httpapi-ratelimit-headers-11). Shadow limits and
// those that are not announced are nobody's business, and of a limit that could not be asked it is not known
// what is left.
func (c *Call) ietf(h http.Header) {
	if !c.described() {
		c.describe()
	}
	if c.policies == "" {
		return // callers are told of none
	}
	c.set(h, hPolicy, c.policies)
	b := c.buf
	for i := range c.quotas {
		q, r := &c.quotas[i], &c.Decision.Results[i]
		if q.hidden || r.Unknown {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = appendLeft(append(b, q.name...), r)
	}
	if len(b) == 0 {
		return // nobody knows what is left of any limit
	}
	// Callers far below their limits get the same text again and again.
	if c.text != string(b) { // which does not allocate
		c.text = string(b)
	}
	c.set(h, hRateLimit, c.text)
	c.buf = b[:0]
}

// quota is a limit as the headers have it.
type quota struct {
	label  string
	limit  sluice.Limit
	hidden bool
	name   string // the label, written as a structured field is
}

// hidden reports whether callers are not told about a limit.
func hidden(d *sluice.Demand) bool { return d.Shadow || d.Unannounced }

// described reports whether the quotas are those of the demands. Mostly they are:
// the last call was under the same limits.
func (c *Call) described() bool {
	demands := c.Decision.Demands
	if len(c.quotas) != len(demands) {
		return false
	}
	for i := range demands {
		if q, d := &c.quotas[i], &demands[i]; q.label != c.Labels[i] || q.limit != d.Limit || q.hidden != hidden(d) {
			return false
		}
	}
	return true
}

// describe makes the quotas of the demands, and the text of RateLimit-Policy.
func (c *Call) describe() {
	c.quotas = c.quotas[:0]
	var b []byte
	for i := range c.Decision.Demands {
		d := &c.Decision.Demands[i]
		name := string(appendName(nil, c.Labels[i]))
		c.quotas = append(c.quotas, quota{c.Labels[i], d.Limit, hidden(d), name})
		if hidden(d) {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, name...)
		b = appendQuota(b, &d.Limit)
	}
	c.policies = string(b)
}

// appendLeft writes what is left of a limit, and when there is more.
func appendLeft(b []byte, r *sluice.Result) []byte {
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, r.Remaining.Whole(), 10)
	if t, ok := renewal(r); ok {
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, ceilSeconds(t), 10)
	}
	return b
}

// appendQuota writes a limit's quota and window. The quota of a token bucket
// is what a full one has, and its window the time in which it fills: so what
// remains is never above the quota, and quota by window is the true rate.
func appendQuota(b []byte, l *sluice.Limit) []byte {
	b = append(b, ";q="...)
	b = strconv.AppendInt(b, l.Capacity().Whole(), 10)
	if l.Algorithm == sluice.Concurrency {
		return append(b, `;qu="concurrent-requests"`...)
	}
	if w := window(l); w > 0 {
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, w, 10)
	}
	return b
}

// window is in how many seconds the capacity comes back, rounded up; 0 for a
// month, which has no fixed length.
func window(l *sluice.Limit) int64 {
	switch l.Calendar {
	case sluice.CalendarDay:
		return 24 * 60 * 60
	case sluice.CalendarMonth:
		return 0
	}
	if l.Algorithm != sluice.TokenBucket || l.Capacity() == l.Amount {
		return ceilSeconds(l.Period)
	}
	fill := float64(l.Period) * float64(l.Capacity().Thousandths()) / float64(l.Amount.Thousandths())
	return ceilSeconds(time.Duration(min(fill, 1e18)))
}

// appendName writes a string of a structured field.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	for i := 0; i < len(name); i++ {
		switch ch := name[i]; {
		case ch < ' ' || ch > '~':
			b = append(b, '?')
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		default:
			b = append(b, ch)
		}
	}
	return append(b, '"')
}

// renewal is how long it takes until there is more: when the bucket is full, or
// for a limit that refused, when the cost could pass.
func renewal(r *sluice.Result) (after time.Duration, ok bool) {
	after = r.ResetAfter
	if !r.Fits {
		after = r.RetryAfter
	}
	return after, after != sluice.Never
}

// plain writes -Limit, -Remaining and -Reset of a limit. The
// reset is in seconds, or with date as a time in Unix seconds, which is what
// those who read the headers with X- expect.
func (c *Call) plain(i int, prefix string, date bool) {
	names := [...]string{hLimit, hRemaining, hReset}
	if prefix != "" {
		names = [...]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
	}
	d := &c.Decision
	limit, result := &d.Demands[i].Limit, &d.Results[i]
	c.value(names[0], strconv.AppendInt(c.buf, limit.Capacity().Whole(), 10))
	if result.Unknown {
		return
	}
	c.value(names[1], strconv.AppendInt(c.buf, result.Remaining.Whole(), 10))
	after, ok := renewal(result)
	if !ok {
		return
	}
	reset := ceilSeconds(after)
	if date {
		now := d.Time
		if now.IsZero() {
			now = time.Now()
		}
		reset = now.Add(after + time.Second - 1).Unix() // rounded up, too
	}
	c.value(names[2], strconv.AppendInt(c.buf, reset, 10))
}

// ceilSeconds rounds up, because whoever comes back early is refused again.
func ceilSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	n := int64(d / time.Second)
	if d%time.Second != 0 {
		n++
	}
	return n
}

// jittered adds up to jitter, so that those refused at the same time do not
// come back at the same time.
func jittered(after, jitter time.Duration) time.Duration {
	if jitter <= 0 || after == sluice.Never {
		return after
	}
	return after + rand.N(jitter+1)
}
