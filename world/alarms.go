package world

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// figure is how much of a bucket remained, as the store knew or a node heard.
type figure struct {
	key       sluice.Key
	limit     sluice.Limit
	remaining int64
	at        time.Duration
	now       int64 // in the store's time
}

// alarmsWithin is how soon after the store knows what was used some node does,
// too: the time of a message.
const alarmsWithin = time.Second

// alarms checks that alarms come from what all nodes have used together: each
// time that a node reports to the store what it has spent of tokens in hand,
// some node hears of a remainder as low as it is then.
//
// Tolerance: what is refilled while the message is under way, or a window that
// ends. Buckets whose limit changes are left out, as in figures, and worlds in
// which answers may be lost.
func (w *World) alarms() (failures []Failure) {
	if w.live || slices.ContainsFunc(w.plan.Faults, func(f Fault) bool {
		switch f.Kind {
		case Deaf, NoLedger, Restart, Idle:
			return false
		}
		return true
	}) {
		return nil
	}
	heard := map[sluice.Key][]figure{}
	for _, f := range w.heard {
		heard[f.key] = append(heard[f.key], f)
	}
	for _, known := range w.store.reported {
		if w.bucket(known.key).Other.Amount.Thousandths() != 0 {
			continue
		}
		least := known.remaining
		if known.limit.Algorithm == sluice.TokenBucket {
			least += int64(float64(known.limit.Amount.Thousandths()) * alarmsWithin.Seconds() / known.limit.Period.Seconds())
		} else if spec, err := bucket.Compile(known.limit); err == nil {
			if _, end := spec.Window(known.now); end-known.now < alarmsWithin.Microseconds() {
				continue
			}
		}
		if !slices.ContainsFunc(heard[known.key], func(f figure) bool {
			return f.at >= known.at && f.at <= known.at+alarmsWithin && f.remaining <= least
		}) {
			failures = append(failures, Failure{"alarms", known.at, fmt.Sprintf("of %s %s remain, and no node hears of it", known.key, sluice.Thousandths(known.remaining))})
		}
	}
	return failures
}

// hears remembers what a node heard of a bucket, as its alarms do.
func (w *World) hears(d *sluice.Demand, r *sluice.Result) {
	if r.Unknown {
		return
	}
	f := figure{key: d.Key, remaining: r.Remaining.Thousandths(), at: w.elapsed()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, f)
}

// report remembers what remains after a node has reported what it spent. The
// caller holds the mutex.
func (t *truth) report(k sluice.Key, id sluice.HoldID, spent, remaining int64, limit sluice.Limit) {
	if now := t.world.clocks.now(); t.close(holdKey{k, id}, now) && spent > 0 {
		t.reported = append(t.reported, figure{k, limit, remaining, t.world.elapsed(), now.UnixMicro()})
	}
}
