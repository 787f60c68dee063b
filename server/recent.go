package server

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// Activity is an [sluice.Observer] that remembers, for each bucket, what this
// process asked of it in the last minute: the figures for a status view that
// the buckets themselves do not have.
type Activity struct {
	seed   maphash.Seed
	shards [activityShards]activityShard
	most   int // buckets a shard
}

const (
	activityShards = 32
	activityCells  = 60 // seconds
)

// Recent is what this process asked of a bucket in the last 60 s. Peeks are not
// counted. What was ever taken, by all processes, is usage: see package catalog.
type Recent struct {
	Allowed int64 // takes that were allowed
	Refused int64 // takes that this bucket refused; a shadow refuses none
	Failed  int64 // takes that got no answer
}

type activityShard struct {
	mu    sync.Mutex
	byKey map[sluice.Key]*activity
}

// activity is a ring of counts, one for each of the last seconds.
type activity struct {
	cells [activityCells]activityCell
	last  time.Time
}

type activityCell struct {
	second                   int64
	allowed, refused, failed int32
}

// NewActivity remembers at most the given number of buckets (0 means 10 000),
// those asked for last.
func NewActivity(buckets int) *Activity {
	if buckets <= 0 {
		buckets = 10_000
	}
	return &Activity{seed: maphash.MakeSeed(), most: (buckets + activityShards - 1) / activityShards}
}

// Decided counts a take.
func (a *Activity) Decided(t *sluice.Take, d *sluice.Decision, err error, _ time.Duration) {
	now := time.Now()
	for i := range t.Demands {
		allowed, refused, failed := 0, 0, 0
		switch {
		case err != nil:
			failed = 1
		case d.Allowed:
			allowed = 1
		case !d.Results[i].Fits && !t.Demands[i].Shadow:
			refused = 1
		default:
			continue // another limit refused
		}
		a.count(&t.Demands[i].Key, now, int32(allowed), int32(refused), int32(failed))
	}
}

// Consumed does nothing: net consumption is in the bucket.
func (a *Activity) Consumed(sluice.Key, sluice.Limit, sluice.Consumption) {}

// Waited does nothing: waiting is not asking.
func (a *Activity) Waited(*sluice.Take, time.Duration, bool) {}

func (a *Activity) count(k *sluice.Key, now time.Time, allowed, refused, failed int32) {
	sh := a.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.byKey[*k]
	if b == nil {
		sh.makeRoom(a.most)
		b = &activity{}
		sh.byKey[*k] = b
	}
	second := now.Unix()
	c := &b.cells[second%activityCells]
	if c.second != second {
		*c = activityCell{second: second}
	}
	c.allowed += allowed
	c.refused += refused
	c.failed += failed
	b.last = now
}

func (a *Activity) shard(k *sluice.Key) *activityShard {
	return &a.shards[maphash.Comparable(a.seed, *k)%activityShards]
}

// makeRoom drops the longest idle of a few buckets if there are too many.
func (sh *activityShard) makeRoom(most int) {
	if sh.byKey == nil {
		sh.byKey = map[sluice.Key]*activity{}
	}
	if len(sh.byKey) < most {
		return
	}
	var oldest sluice.Key
	var last time.Time
	looked := 0
	for k, b := range sh.byKey {
		if looked == 0 || b.last.Before(last) {
			oldest, last = k, b.last
		}
		if looked++; looked == 8 {
			break
		}
	}
	delete(sh.byKey, oldest)
}

// resources returns those that were asked for an entity, as far back as is
// remembered.
func (a *Activity) resources(namespace, entity string) (names []string) {
	for i := range a.shards {
		sh := &a.shards[i]
		sh.mu.Lock()
		for k := range sh.byKey {
			if k.Namespace == namespace && k.Entity == entity && !strings.HasPrefix(k.Resource, "$") {
				names = append(names, k.Resource)
			}
		}
		sh.mu.Unlock()
	}
	return names
}

// Of returns the recent activity on a bucket, or zero if there was none.
func (a *Activity) Of(k sluice.Key) Recent {
	sh := a.shard(&k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := sh.byKey[k]
	if b == nil {
		return Recent{}
	}
	var r Recent
	since := time.Now().Unix() - activityCells
	for i := range b.cells {
		if c := &b.cells[i]; c.second > since {
			r.Allowed += int64(c.allowed)
			r.Refused += int64(c.refused)
			r.Failed += int64(c.failed)
		}
	}
	return r
}
