package storetest

import (
	"time"

	"github.com/sluice-go/sluice"
)

// waits changes what refusals say.
func waits(m *Model, change func(*sluice.Result)) sluice.Store {
	return &faulty{Model: m, after: func(_ *faulty, _ *sluice.Take, d *sluice.Decision) {
		for i := range d.Results {
			if d.Results[i].RetryAfter != 0 {
				change(&d.Results[i])
			}
		}
		d.Conclude()
	}}
}

func retriesEarly(m *Model) sluice.Store {
	return waits(m, func(r *sluice.Result) {
		if r.RetryAfter != sluice.Never && r.RetryAfter > time.Microsecond {
			r.RetryAfter -= time.Microsecond
		}
	})
}

func retriesLate(m *Model) sluice.Store {
	return waits(m, func(r *sluice.Result) {
		if r.RetryAfter != sluice.Never {
			r.RetryAfter += time.Microsecond
		}
	})
}

func neverIsNotYet(m *Model) sluice.Store {
	return waits(m, func(r *sluice.Result) {
		if r.RetryAfter == sluice.Never {
			r.RetryAfter = 99 * time.Second
		}
	})
}

// pushesIn lets a take without a ticket pass those who wait.
func pushesIn(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(f *faulty, k sluice.Key, e *entry, now int64) {
		if x := e.state.Ext; x != nil {
			x.Tickets = nil
		}
	}}
}

// servesLastFirst turns the line around.
func servesLastFirst(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) { t.Ticket.Rank = -t.Ticket.Rank }}
}

// neverLeaves keeps the tickets of those who have passed.
func neverLeaves(m *Model) sluice.Store {
	return &faulty{Model: m, returned: func(_ *faulty, r *sluice.HoldReturn) { r.ID = sluice.HoldID{} }}
}
