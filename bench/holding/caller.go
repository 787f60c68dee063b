package holding

import (
	"time"

	"github.com/sluice-go/sluice/bench/keys"
)

// caller is one goroutine that makes takes and notes the answers.
type caller struct {
	account

	ask   ask
	asked keys.Sequence
	from  keys.Sequence // addresses
	marks marks

	// Admissions of watched buckets, in parts of a fixed size, so that
	// nothing is copied during the run.
	recorded [][]admission

	origin time.Time     // has a monotonic reading
	ahead  time.Duration // of origin, the start is
}

const partSize = 4096

// begin waits for the start.
func (c *caller) begin(start time.Time) {
	time.Sleep(time.Until(start))
	c.origin = time.Now()
	c.ahead = start.Sub(c.origin)
}

// now is the time since the start.
func (c *caller) now() time.Duration { return time.Since(c.origin) - c.ahead }

// busy asks again as soon as it is answered.
func (c *caller) busy(d time.Duration) error {
	for call, i, n := c.now(), 0, c.asked.Len(); call < d; i++ {
		if i == n {
			i = 0
		}
		v, err := c.ask(c.asked.At(i), c.from.At(i))
		if err != nil {
			return err
		}
		returned := c.now()
		c.note(v, i, call, returned)
		call = returned
	}
	return nil
}

// paced asks when it is due. The takes of all callers of all processes are
// spread evenly.
func (c *caller) paced(o *order, number, pace int) error {
	all := o.Processes * o.Callers
	for n := number*o.Processes + o.Process; ; n += all {
		due := time.Duration(n) * time.Second / time.Duration(pace)
		if due >= o.Duration {
			return nil
		}
		time.Sleep(due - c.now())
		i := n / all % c.asked.Len()
		call := c.now()
		v, err := c.ask(c.asked.At(i), c.from.At(i))
		if err != nil {
			return err
		}
		c.note(v, i, call, c.now())
	}
}

// note takes down one answer.
func (c *caller) note(v verdict, i int, call, returned time.Duration) {
	c.Asked++
	if v.allowed {
		c.Passed++
	}
	if v.local {
		c.Local++
	}
	took := returned - call
	c.All.add(took)
	if v.held {
		c.Held.add(took)
	}
	for _, m := range c.marks {
		if m[i] == 0 {
			continue
		}
		bucket := uint32(m[i] - 1)
		c.Watched[bucket]++
		if v.allowed {
			c.record(admission{bucket, uint32(call.Microseconds()), uint32(returned.Microseconds())})
		}
	}
}

func (c *caller) record(a admission) {
	last := len(c.recorded) - 1
	if last < 0 || len(c.recorded[last]) == partSize {
		c.recorded = append(c.recorded, make([]admission, 0, partSize))
		last++
	}
	c.recorded[last] = append(c.recorded[last], a)
}
