package metrics

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit/abuse"
)

const (
	nearShards = 16
	mostNear   = 10_000 / nearShards // buckets watched, a shard

	// repeat is how long the log stays quiet about a bucket that comes to the
	// same alarm again.
	repeat = time.Minute

	// forget is how long a bucket that nobody asks for is taken to be as full
	// as it was if it is not known when it is full again: nobody tells when
	// work in flight ends.
	forget = time.Minute
)

type nearShard struct {
	mu    sync.Mutex
	byKey map[sluice.Key]*nearBucket
	swept time.Time
}

// nearBucket is a bucket that is, or was just now, near its limit.
type nearBucket struct {
	alarm     severity
	used      float64 // percent, when it was last seen
	seen      time.Time
	reset     time.Time // when it is full again if nobody takes anything
	algorithm sluice.Algorithm
	told      [severities]time.Time // when the log had a line about it
}

// usedAt is how much is used later on, if nobody takes anything: a token
// bucket refills evenly, a window ends.
func (b *nearBucket) usedAt(now time.Time) float64 {
	switch {
	case !now.Before(b.reset):
		return 0
	case b.algorithm == sluice.TokenBucket:
		return b.used * float64(b.reset.Sub(now)) / float64(max(b.reset.Sub(b.seen), 1))
	}
	return b.used
}

// over reports whether there is nothing left to remember about b.
func (b *nearBucket) over(now time.Time) bool {
	return b.alarm == none && now.Sub(b.told[warning]) >= repeat && now.Sub(b.told[critical]) >= repeat
}

func (u *Utilization) shard(k *sluice.Key) *nearShard {
	return &u.near[maphash.Comparable(u.seed, *k)%nearShards]
}

// saw notes how full a bucket is, and tells if that is a worse alarm than
// before.
func (u *Utilization) saw(d *sluice.Demand, used float64, reset time.Duration, now time.Time) {
	sh := u.shard(&d.Key)
	sh.mu.Lock()
	b := sh.byKey[d.Key]
	if b == nil {
		if used < u.from[warning] {
			sh.mu.Unlock()
			return
		}
		if b = u.add(sh, d.Key, now); b == nil {
			sh.mu.Unlock()
			u.unwatched.Inc()
			return
		}
	}
	before := u.alarm(b.usedAt(now), b.alarm)
	b.alarm = u.alarm(used, before)
	b.used, b.seen, b.algorithm = used, now, d.Limit.Algorithm
	if b.algorithm == sluice.Concurrency || reset <= 0 {
		reset = forget
	}
	b.reset = now.Add(reset)
	tell := false
	for a := before + 1; a <= b.alarm; a++ {
		u.crossed[a].Inc()
		tell = now.Sub(b.told[a]) >= repeat
		if tell {
			b.told[a] = now
		}
	}
	reached := b.alarm
	if b.over(now) {
		delete(sh.byKey, d.Key)
		u.known.Add(-1)
	}
	sh.mu.Unlock()
	if tell {
		u.tell(d, reached, used, now)
	}
}

// add watches one more bucket; nil if there are too many.
func (u *Utilization) add(sh *nearShard, k sluice.Key, now time.Time) *nearBucket {
	if sh.byKey == nil {
		sh.byKey = map[sluice.Key]*nearBucket{}
	}
	if len(sh.byKey) >= mostNear {
		if now.Sub(sh.swept) < time.Second {
			return nil
		}
		u.sweep(sh, now, nil)
		if len(sh.byKey) >= mostNear {
			return nil
		}
	}
	b := &nearBucket{}
	sh.byKey[k] = b
	u.known.Add(1)
	return b
}

// sweep forgets buckets that are no longer near their limits, and counts the
// others if count is not nil.
func (u *Utilization) sweep(sh *nearShard, now time.Time, count *[severities]int) {
	sh.swept = now
	for k, b := range sh.byKey {
		b.alarm = min(b.alarm, u.alarm(b.usedAt(now), b.alarm))
		if b.over(now) {
			delete(sh.byKey, k)
			u.known.Add(-1)
		} else if count != nil {
			count[b.alarm]++
		}
	}
}

func (u *Utilization) countNear(w *sheet) {
	var count [severities]int
	now := time.Now()
	for i := range u.near {
		sh := &u.near[i]
		sh.mu.Lock()
		u.sweep(sh, now, &count)
		sh.mu.Unlock()
	}
	by(w, "sluice_buckets_near_limit", "Buckets at an alarm, as far as this process knows.", "alarm",
		map[string]int{warning.String(): count[warning], critical.String(): count[critical]})
}

// tell writes a line about a bucket that has come to an alarm.
func (u *Utilization) tell(d *sluice.Demand, a severity, used float64, now time.Time) {
	untold, ok := u.lines.next(now)
	if !ok {
		return
	}
	args := []any{
		"alarm", a.String(), "utilization", math.Round(used*10) / 10, "entity", abuse.Mask(d.Key.Entity, 4),
		"resource", d.Key.Resource, "limit", d.Key.Limit, "rule", d.Limit.String(),
	}
	if d.Key.Namespace != "" {
		args = append(args, "namespace", d.Key.Namespace)
	}
	if untold > 0 {
		args = append(args, "untold", untold) // buckets before this one
	}
	at := slog.LevelWarn
	if a == critical {
		at = slog.LevelError
	}
	u.log.Log(context.Background(), at, "bucket near its limit", args...)
}

// lines bounds how many lines a minute go to the log.
type lines struct {
	mu     sync.Mutex
	since  time.Time
	told   int
	untold int
}

const mostLines = 60

// next reports whether one more line may be written, and how many were not
// written before it.
func (l *lines) next(now time.Time) (untold int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Minute {
		l.since, l.told = now, 0
	}
	if l.told >= mostLines {
		l.untold++
		return 0, false
	}
	l.told++
	untold, l.untold = l.untold, 0
	return untold, true
}
