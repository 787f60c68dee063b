package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// breaker decides whether the store may be asked, and learns from how that
// went. In the normal state both cost one atomic read; the mutex is for the
// rest.
type breaker struct {
	settings *atomic.Pointer[settings]
	origin   time.Time
	shard    int        // see [Shards]
	changed  func()     // is called when the state has changed
	probed   sluice.Key // of the health check
	asking   atomic.Bool

	// word is the state and, above it, how often the breaker has opened. A
	// call carries the word it was admitted under, so that a result from
	// before an opening does not count after it.
	word atomic.Uint64

	// until is when the open breaker may be tried, or when a probe that is
	// out counts as lost; in nanoseconds since origin.
	until atomic.Int64

	failing atomic.Int32 // failures in a row, those that do not count included

	mu        sync.Mutex    // for writing the above too
	counted   int           // failures in a row that count
	lastFail  time.Duration // when the last of them was counted
	rowBegan  time.Duration // when the first call of the row began
	outage    time.Duration // when the first call of the outage began
	short     bool          // it lasted less than the first back-off
	backoff   time.Duration
	wins      int           // successes in this state, in a row or, in a phase, less what made up for failures
	from      time.Duration // when the phase began, or began again after a failure
	succeeded int64         // since the breaker closed
	finished  int64
	since     time.Duration // when the state began
	entered   [states]int64
	spent     [states]time.Duration

	checking checking
}

// pass is the permission for one call.
type pass struct {
	by    *breaker
	word  uint64
	began time.Duration // since the breaker's origin
	probe bool          // it was let through alone
}

const stateBits = 8

func stateOf(word uint64) State { return State(word & (1<<stateBits - 1)) }

func (p pass) state() State { return stateOf(p.word) }

func (b *breaker) state() State { return stateOf(b.word.Load()) }

func (b *breaker) now() time.Duration { return time.Since(b.origin) }

// admit reports whether a call other than a take may be made.
func (b *breaker) admit() (pass, bool) {
	w := b.word.Load()
	if s := stateOf(w); s == Open || s == HalfOpen {
		if b.now() < time.Duration(b.until.Load()) {
			return pass{}, false
		}
		return b.probe()
	}
	return pass{by: b, word: w}, true
}

// admitTake reports whether the store may be asked about t.
func (b *breaker) admitTake(t *sluice.Take) (pass, bool) {
	w := b.word.Load()
	s := stateOf(w)
	switch {
	case s == Normal:
		return pass{by: b, word: w}, true
	case !s.recovering():
		return b.admit()
	case mustAsk(t) || takeShare(t) < b.settings.Load().phase(s).Share:
		return pass{by: b, word: w}, true
	}
	return b.probe()
}

// probe lets a caller's call through if no other is out: to try a store whose
// back-off is over, or to bring a phase to its end that has lasted long enough
// but whose share of the keys brings too few calls.
func (b *breaker) probe() (pass, bool) {
	b.mu.Lock()
	var ch change
	defer func() { b.tell(&ch) }()
	defer b.mu.Unlock()
	now, s := b.now(), b.state()
	switch {
	case s == Normal: // just now
		return pass{by: b, word: b.word.Load()}, true
	case now < time.Duration(b.until.Load()):
		return pass{}, false
	case s.recovering() && now-b.from < b.settings.Load().phase(s).For:
		return pass{}, false
	case s == Open:
		ch = b.change(HalfOpen)
	}
	// A probe that never reports, because its caller panicked, must not block
	// the others for ever.
	b.until.Store(int64(now + 2*b.settings.Load().Timeout))
	return pass{by: b, word: b.word.Load(), probe: true}, true
}

// success learns of a call that the store answered.
func (b *breaker) success(p pass) {
	if p.state() == Normal && b.failing.Load() == 0 {
		return
	}
	b.mu.Lock()
	var ch change
	if b.current(p) {
		b.release(p)
		b.failing.Store(0)
		b.counted = 0
		ch = b.advance(p)
	}
	b.mu.Unlock()
	b.tell(&ch)
}

// advance counts a success and goes on to the next state if it was enough.
func (b *breaker) advance(p pass) change {
	s := b.state()
	if s == Open || s == HalfOpen { // open: only the health check does not wait for the back-off
		if b.wins++; b.wins == 1 {
			b.short = b.now()-b.outage < b.settings.Load().Backoff
		}
		if b.wins < b.settings.Load().Successes {
			ch := change{}
			if s == Open {
				ch = b.change(HalfOpen)
				b.wins = 1
			}
			return ch
		}
		b.succeeded, b.finished = 0, 0
		if b.short {
			return b.change(Normal)
		}
		return b.change(Testing)
	}
	if !s.recovering() {
		return change{}
	}
	b.succeeded++
	b.finished++
	if p.state() != s {
		return change{} // it was asked in an earlier phase
	}
	b.wins++
	phase, took := b.settings.Load().phase(s), b.now()-b.from
	if b.wins < phase.Successes || took < phase.For {
		return change{}
	}
	if b.succeeded*100 < b.finished*int64(phase.Rate) && took < 2*phase.For {
		return change{} // without an end, few callers could not make up for the failures of many
	}
	return b.change(s.next())
}

// failure learns of a call that the store did not answer as it should. One
// that is starved was not answered in time by this process's own fault.
func (b *breaker) failure(p pass, starved bool, err error) {
	b.mu.Lock()
	var ch change
	if b.current(p) {
		b.release(p)
		ch = b.retreat(p, starved)
		ch.err = err
	}
	b.mu.Unlock()
	b.tell(&ch)
}

// maxStarved is for how many time-outs a row of failures may be put down to a
// process that gets no processor time. A store that is away does not go
// unnoticed for longer.
const maxStarved = 10

// makesUp is how many successes of a phase make up for a failure in it. Among
// many calls on a busy machine one is late now and then, and recovery has to end
// all the same: 95 % of answers are enough, as for the end of the last phase.
const makesUp = 19

// retreat counts a failure and goes back to an earlier state if it has to.
//
// Calls that are out together when a store stalls fail together. That is one
// event, so a failure counts only if its call began after the last one that
// counted.
func (b *breaker) retreat(p pass, starved bool) change {
	s, now, config := b.state(), b.now(), b.settings.Load()
	if s == Open {
		return change{} // the health check; callers wait for the end of the back-off as before
	}
	b.finished++
	if p.began < b.lastFail {
		return change{}
	}
	if b.failing.Add(1) == 1 {
		b.rowBegan = p.began
	}
	if starved && now-b.rowBegan < maxStarved*config.Timeout {
		return change{}
	}
	b.lastFail = now
	b.counted++
	ch, failures := change{}, b.counted
	switch {
	case s == HalfOpen:
		ch = b.open(min(2*b.backoff, config.MaxBackoff))
	case failures >= config.Failures:
		if s == Normal && (b.entered[Normal] == 0 || b.rowBegan-b.since >= config.Backoff) {
			b.outage = b.rowBegan // and not the one before, going on
		}
		ch = b.open(config.Backoff)
	case !s.recovering() || p.state() != s:
		// In the normal state only a row of failures matters. In a phase, of
		// several calls that failed together one steps back.
	case b.wins >= makesUp:
		b.wins -= makesUp
	case s == Testing:
		b.wins, b.from = 0, now
	default:
		ch = b.change(s - 1)
	}
	ch.failures = failures
	return ch
}

// neutral learns of a call that says nothing about the store.
func (b *breaker) neutral(p pass) {
	if !p.probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current(p) {
		b.release(p)
	}
}

// current reports whether p was given since the breaker last opened.
func (b *breaker) current(p pass) bool { return p.word>>stateBits == b.word.Load()>>stateBits }

// release lets the next probe through.
func (b *breaker) release(p pass) {
	if p.probe {
		b.until.Store(0)
	}
}

// open stops asking for about backoff.
func (b *breaker) open(backoff time.Duration) change {
	b.backoff = backoff
	wait := backoff + time.Duration(b.settings.Load().Rand()*float64(backoff/10))
	b.until.Store(int64(b.now() + wait)) // first: whoever sees Open must see it
	ch := b.changeTo(Open, 1)
	b.failing.Store(0)
	b.counted = 0
	ch.probe = wait
	return ch
}

func (b *breaker) change(to State) change {
	b.until.Store(0)
	return b.changeTo(to, 0)
}

func (b *breaker) changeTo(to State, openings uint64) change {
	now, from := b.now(), b.state()
	ch := change{from: from, to: to, after: now - b.since}
	b.spent[from] += ch.after
	b.entered[to]++
	b.since, b.from, b.wins = now, now, 0
	if to != Normal {
		b.keepChecking()
	}
	b.word.Store((b.word.Load()>>stateBits+openings)<<stateBits | uint64(to))
	return ch
}

// tell writes the line about a change. It also wakes those who wait, because
// somebody else decides for them from now on.
func (b *breaker) tell(ch *change) {
	if ch.from == ch.to {
		return
	}
	log := b.settings.Load().Log
	if b.settings.Load().Shards != nil {
		log = log.With("shard", b.shard)
	}
	ch.log(log)
	b.changed()
}

// retryIn is when a take that is denied for the store's sake may be tried
// again.
func (b *breaker) retryIn() time.Duration {
	const least = time.Second
	if b.state() != Open {
		return least
	}
	return max(least, time.Duration(b.until.Load())-b.now())
}
