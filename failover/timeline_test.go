package failover_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// kind is what became of a take.
type kind int

const (
	exact    kind = iota // the store decided
	held                 // decided with tokens in hand, or by the deny cache
	degraded             // passed by a local quota
	denied               // refused by one
	unknown              // decided locally after no answer
	errored
	kinds
)

func (k kind) String() string {
	return [kinds]string{"store", "held", "degraded, passed", "degraded, refused", "unknown", "errors"}[k]
}

// slot is how long one entry of a timeline is.
const slot = 100 * time.Millisecond

// timeline is what callers saw, and in which state the store was, in slots.
type timeline struct {
	start  time.Time
	length time.Duration // once it has ended

	killed, back, normal time.Duration // since the start

	slots   []timelineSlot
	slowest atomic.Int64
	local   atomic.Int64 // when the first local answer came, since the start

	firstError atomic.Value

	counts    [kinds]atomic.Int64
	recovered atomic.Bool
	strays    atomic.Int64 // local answers to takes that began when it had recovered

	stop    chan struct{}
	stopped sync.WaitGroup
}

type timelineSlot struct {
	counts [kinds]atomic.Int64
	state  failover.State
}

// newTimeline starts one that lasts at most so long, and looks at the state by
// itself.
func newTimeline(most time.Duration, state func() failover.State) *timeline {
	l := &timeline{start: time.Now(), slots: make([]timelineSlot, most/slot+1), stop: make(chan struct{})}
	l.stopped.Go(func() {
		tick := time.NewTicker(slot)
		defer tick.Stop()
		for next := 0; ; {
			for now := state(); next <= l.place(); next++ { // several after a tick that was late
				l.slots[next].state = now
			}
			select {
			case <-tick.C:
			case <-l.stop:
				return
			}
		}
	})
	return l
}

func (l *timeline) end() {
	close(l.stop)
	l.stopped.Wait()
	l.length = time.Since(l.start)
}

// place is the number of the slot that it is.
func (l *timeline) place() int { return min(int(time.Since(l.start)/slot), len(l.slots)-1) }

// note writes an answer down that took so long, to a take that began before
// the recovery or after it.
func (l *timeline) note(d *sluice.Decision, err error, took time.Duration, recovered bool) {
	k := errored
	switch {
	case err != nil:
		l.firstError.CompareAndSwap(nil, err)
	case d.Source == sluice.FromStore:
		k = exact
	case d.Source == sluice.FromHeld || d.Source == sluice.FromDenyCache:
		k = held
	case d.Source == sluice.Unknown:
		k = unknown
	case d.Allowed:
		k = degraded
	default:
		k = denied
	}
	if k == degraded || k == denied || k == unknown {
		l.local.CompareAndSwap(0, int64(time.Since(l.start)))
		if recovered {
			l.strays.Add(1)
		}
	}
	l.counts[k].Add(1)
	for slowest := l.slowest.Load(); int64(took) > slowest && !l.slowest.CompareAndSwap(slowest, int64(took)); {
		slowest = l.slowest.Load()
	}
	l.slots[l.place()].counts[k].Add(1)
}

// count is how many of some kinds there were so far.
func (l *timeline) count(kinds ...kind) (n int64) {
	for _, k := range kinds {
		n += l.counts[k].Load()
	}
	return n
}

// used are the slots from the start to the end.
func (l *timeline) used() []timelineSlot { return l.slots[:min(int(l.length/slot)+1, len(l.slots))] }

// sum is how many of a kind there were from one time to another.
func (l *timeline) sum(k kind, from, to time.Duration) (n int64) {
	used := l.used()
	for i := range used {
		if at := time.Duration(i) * slot; at >= from && at < to {
			n += used[i].counts[k].Load()
		}
	}
	return n
}

func (l *timeline) total() (n int64) {
	for k := range kinds {
		n += l.sum(k, 0, l.length)
	}
	return n
}

// breaker is what a state means for the breaker.
func breaker(s failover.State) string {
	if s == failover.Open || s == failover.HalfOpen {
		return s.String()
	}
	return "closed"
}

// phase is the phase of recovery that a state is.
func phase(s failover.State) string {
	if s == failover.Open || s == failover.HalfOpen {
		return "-"
	}
	return s.String()
}

// WriteTo writes one line for each slot.
func (l *timeline) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%8s", "seconds")
	for k := range kinds {
		fmt.Fprintf(&b, "  %*s", len(k.String()), k)
	}
	fmt.Fprintf(&b, "  %-9s  %s\n", "breaker", "phase")
	used := l.used()
	for i := range used {
		s := &used[i]
		fmt.Fprintf(&b, "%8.1f", (time.Duration(i) * slot).Seconds())
		for k := range kinds {
			fmt.Fprintf(&b, "  %*d", len(k.String()), s.counts[k].Load())
		}
		fmt.Fprintf(&b, "  %-9s  %s\n", breaker(s.state), phase(s.state))
	}
	return b.WriteTo(w)
}
