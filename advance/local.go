package advance

import (
	"hash/crc32"
	"hash/maphash"
	"iter"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const (
	// MinCapacity is the least capacity of a limit that is worth holding:
	// smaller ones are decided by the store.
	MinCapacity = 40 * sluice.Token

	shareOfCapacity = 10                    // one hold is at most this part of it
	horizon         = 2 * time.Second       // of traffic in a hold
	gap             = 25 * time.Millisecond // least time between asking a drained bucket
	denyFor         = time.Second           // a refusal is remembered for at most
	many            = 3                     // takes refused lately: more than who comes back when told makes
)

// local is what this node knows of one bucket and has of its tokens. What a
// take that is decided here looks at comes first, so that it is in few lines of
// the cache.
type local struct {
	key   sluice.Key
	hash  uint64
	next  *local // with the same hash
	limit sluice.Limit

	told      time.Duration // when the store was last heard, at the earliest
	said      int64         // that time by the store's clock, in microseconds
	remaining int64         // what was not used then, held or not
	free      int64         // in the store then
	unsaid    int64         // what was spent here and the store did not know of then
	known     bool          // it was heard at all

	denyOnly  bool // only denyCost was refused: of others it tells nothing
	denyHeld  bool // for what is held, or for who is before in line
	probe     bool // the store decides the next take, and the others wait for it
	denyUntil time.Duration
	denyCost  int64
	denyRetry time.Duration // when it really could pass
	refused   int64         // here since the store was heard
	stood     int64         // the store's time when a caller of this node last stood in line

	holds [2]hold       // spent in this order; a zero id is none
	used  time.Duration // last
	spent int64         // since it was last asked for more

	settle hold // used up and not yet reported
	asking *ask // for more, now

	exactOnly time.Duration // until then the store decides each take

	resets  time.Duration // when a sliding window is full again
	spec    *bucket.Spec  // of a fixed window
	shortOf int64         // the cost that what was heard was not enough for; 0 if it was
	before  int64         // what was refused between the answer before and that one
	waiting int64         // what callers want of the ask
	inStore int64         // what takes want that the store is deciding

	asked  time.Duration // last
	turned int64         // since then, what was wanted by callers that were refused meanwhile
	rate   float64       // tokens a second, smoothed
}

// hold is tokens in hand.
type hold struct {
	id     sluice.HoldID
	amount int64
	left   int64
	until  time.Duration
	epoch  uint64

	// pending is how many takes have spent of it that the store is yet to allow.
	// It is not reported before they know.
	pending int
}

func (h *hold) valid(now time.Duration, epoch uint64) bool {
	return h.id.Seq != 0 && now < h.until && h.epoch == epoch
}

// available is how much can be spent here and now. Holds that cannot be
// trusted any more are dropped: the store counts them as spent.
func (l *local) available(now time.Duration, epoch uint64) int64 {
	var n int64
	for i := range l.holds {
		h := &l.holds[i]
		if h.id.Seq == 0 {
			continue
		}
		if !h.valid(now, epoch) {
			*h = hold{}
			continue
		}
		n += h.left
	}
	if first := &l.holds[0]; first.left == 0 {
		if first.id.Seq != 0 && l.settle.id.Seq == 0 {
			l.settle, *first = *first, hold{}
		}
		if first.id.Seq == 0 {
			l.holds[0], l.holds[1] = l.holds[1], hold{}
		}
	}
	return n
}

// spend takes n, which is available, and answers of which holds.
func (l *local) spend(n int64, now time.Duration) (of [2]uint64) {
	l.spent += n
	l.unsaid += n
	l.used = now
	for i := range l.holds {
		h := &l.holds[i]
		m := min(n, h.left)
		if m > 0 {
			of[i] = h.id.Seq
		}
		h.left -= m
		n -= m
	}
	return of
}

// pend counts a take that the store is yet to allow, or with -1 no longer.
func (l *local) pend(of [2]uint64, sign int) {
	for _, h := range []*hold{&l.settle, &l.holds[0], &l.holds[1]} {
		if h.id.Seq != 0 && (h.id.Seq == of[0] || h.id.Seq == of[1]) {
			h.pending += sign
		}
	}
}

// giveBack undoes spend, if the tokens can still be used.
func (l *local) giveBack(n int64, now time.Duration, epoch uint64) {
	for _, h := range []*hold{&l.settle, &l.holds[0], &l.holds[1]} {
		if h.valid(now, epoch) {
			m := min(n, h.amount-h.left)
			h.left += m
			l.spent -= m
			l.unsaid -= m
			n -= m
		}
	}
}

// denied reports whether a refusal still stands for cost.
func (l *local) denied(cost int64, now time.Duration) bool {
	return now < l.denyUntil && (cost == l.denyCost || cost > l.denyCost && !l.denyOnly)
}

// fits reports whether the store lately had enough for cost, and for those who
// are asking it already.
func (l *local) fits(cost int64, now time.Duration) bool {
	return l.known && now-l.told < denyFor && l.ahead()+cost <= l.free+l.refilled(now)
}

// deny remembers a refusal that could pass after retry. How long other costs
// have to wait follows from it unless they would wait for something else: the
// next part of a sliding window to end, or what nodes hold to come back.
func (l *local) deny(cost int64, retry, now time.Duration) {
	if retry == sluice.Never {
		return // costs nothing to find out again, and the answer is another
	}
	l.denyUntil, l.denyCost, l.denyRetry = now+min(retry, denyFor), cost, now+retry
	l.denyOnly, l.denyHeld = l.limit.Algorithm == sluice.SlidingWindow || l.free != l.remaining, false
}

// deniedFor is how long a cost that is denied has to wait: of a token bucket,
// for as long again as refill takes for what it wants more than was refused.
func (l *local) deniedFor(cost int64, now time.Duration) time.Duration {
	retry := max(l.denyRetry-now, time.Microsecond)
	if more := cost - l.denyCost; more > 0 && l.limit.Algorithm == sluice.TokenBucket {
		amount, period := l.limit.Rate()
		whole, rest := more/amount, more%amount
		if whole > bucket.Forever/period {
			return forever
		}
		retry = min(retry, forever) + time.Duration(whole*period+(rest*period+amount-1)/amount)*time.Microsecond
	}
	return min(retry, forever)
}

// breather is how long to leave a drained bucket alone, so that a few tokens
// come and not each is asked for.
func (l *local) breather() time.Duration { return min(gap, 4*l.dueIn(sluice.Token)) }

// denyForHeld remembers a refusal that holds caused, for a moment only, after
// which the store decides one take, so that it knows who is waiting.
func (l *local) denyForHeld(cost int64, retry, now time.Duration) {
	l.deny(cost, retry, now)
	l.denyUntil = min(l.denyUntil, now+gap)
	l.denyOnly, l.denyHeld = true, true
	l.probe = true
}

// overtaken reports whether a caller of this node stands in line that the store
// did not know of when it said something at at. If its clock was set back since,
// nobody can tell.
func (l *local) overtaken(at time.Time) bool {
	return at.UnixMicro() < l.stood && l.stood <= l.said
}

// hear remembers what the store had left and what of it was free when it was
// asked at sent, and which cost, if any, that is not enough for. It said so at
// at, in its own time.
func (l *local) hear(remaining, free, shortOf int64, sent time.Duration, at time.Time) {
	if l.shortOf = shortOf; l.overtaken(at) {
		l.shortOf = 0
	}
	l.before, l.refused = l.refused, 0
	l.note(remaining, free, sent, at)
}

// note is the part of hear that says nothing about who wants how much. Answers
// may overtake each other on their way: what the store said before something
// that is known already is not news, unless its clock was set back.
func (l *local) note(remaining, free int64, sent time.Duration, at time.Time) {
	micros := at.UnixMicro()
	if l.known && micros < l.said && sent-l.told < time.Second {
		return
	}
	l.remaining, l.free, l.told, l.said, l.known = remaining, free, sent, micros, true
	l.unsaid = l.settle.amount - l.settle.left
	for i := range l.holds {
		l.unsaid += l.holds[i].amount - l.holds[i].left
	}
}

// unsaidBy is what was spent here of holds that the store has yet to hear of.
// Those that have expired it counts as spent.
func (l *local) unsaidBy(now time.Duration, epoch uint64) (spent int64) {
	for _, h := range []*hold{&l.settle, &l.holds[0], &l.holds[1]} {
		if h.valid(now, epoch) {
			spent += h.amount - h.left
		}
	}
	return spent
}

// correct makes what the store said of the bucket true of this node, too: what
// was spent here and is not reported yet is used, not held. It was said at at,
// in the store's time.
func (l *local) correct(r *sluice.Result, at time.Time, now time.Duration, epoch uint64) {
	spent := l.unsaidBy(now, epoch)
	r.Remaining = sluice.Thousandths(r.Remaining.Thousandths() - spent)
	r.Free = sluice.Thousandths(min(r.Free.Thousandths(), r.Remaining.Thousandths()))
	switch {
	case l.limit.Algorithm == sluice.TokenBucket && spent > 0:
		r.ResetAfter = l.dueIn(l.limit.Capacity().Thousandths() - r.Remaining.Thousandths())
	case l.limit.Algorithm == sluice.FixedWindow && spent > 0 && r.ResetAfter == 0:
		_, end := l.window(at.UnixMicro())
		r.ResetAfter = time.Duration(end-at.UnixMicro()) * time.Microsecond
	}
}

// left is what is not used by now, as far as this node knows: what the store
// said, with what was refilled since, less what was spent here. What other
// nodes have spent and not reported yet is not known.
func (l *local) left(now time.Duration) int64 {
	return min(l.limit.Capacity().Thousandths(), l.remaining+l.refilled(now)-l.unsaid)
}

// refilled is about what has come back since the store was heard.
func (l *local) refilled(now time.Duration) int64 {
	if l.limit.Algorithm != sluice.TokenBucket {
		return 0
	}
	return int64(min(float64(l.limit.Amount.Thousandths())*float64(now-l.told)/float64(l.limit.Period), float64(sluice.MaxThousandths)))
}

// outlook is the most that the store can have by now as far as is known, that
// is, but for what is returned or refunded.
func (l *local) outlook(now time.Duration) int64 {
	switch {
	case l.limit.Algorithm == sluice.TokenBucket:
		return l.free + l.refilled(now)
	case now >= l.denyRetry:
		return l.limit.Capacity().Thousandths()
	}
	return l.free
}

// ahead is what those want who are asking the store already.
func (l *local) ahead() int64 {
	n := l.inStore
	if l.asking != nil {
		n += l.waiting
	}
	return n
}

// spokenFor reports whether cost need not be asked for: the store was short of
// it a moment ago, somebody is just asking again, and what can have come since
// then is not enough for them and for cost, or is less than was refused here
// lately, so that it finds takers in any case. So nobody waits for an answer
// that is most likely a refusal.
func (l *local) spokenFor(cost int64, now time.Duration) bool {
	if l.shortOf == 0 || cost < l.shortOf || cost > l.shortOf && l.denyHeld || cost > l.limit.Capacity().Thousandths() || l.limit.Algorithm != sluice.TokenBucket ||
		l.asking == nil && l.inStore == 0 {
		return false
	}
	outlook := l.outlook(now)
	return l.ahead()+cost > outlook || l.before+l.refused > outlook+many*cost && now-l.told < denyFor
}

// retryIn is about when cost could pass that is spoken for: when there is
// enough for all who are asking, and not at once, as others come first.
func (l *local) retryIn(cost int64, now time.Duration) time.Duration {
	return max(l.denyRetry-now, l.dueIn(l.ahead()+cost-l.outlook(now)), l.dueIn(cost), time.Millisecond)
}

// share is the most that one hold may have.
func (l *local) share() int64 { return l.limit.Capacity().Thousandths() / shareOfCapacity }

// wants reports whether it is time to ask for more, before running out.
func (l *local) wants(now time.Duration, epoch uint64) bool {
	if l.asking != nil || now < l.exactOnly || now < l.denyUntil || l.holds[1].id.Seq != 0 {
		return false
	}
	h := &l.holds[0]
	if h.id.Seq == 0 {
		return false // nobody needs more
	}
	return h.left < h.amount/4 || h.until-now < renewBefore
}

// want is how much to ask for.
func (l *local) want(now time.Duration) int64 {
	if since := (now - l.asked).Seconds(); l.asked != 0 && since > 0 {
		seen := float64(l.spent+l.waiting+l.turned) / since
		l.rate += (seen - l.rate) / 2
	}
	n := l.share() // at first sight: a cold key is then not asked for again soon
	if l.asked != 0 {
		n = max(n/16, int64(l.rate*horizon.Seconds()))
	}
	if l.free < l.limit.Capacity().Thousandths()/4 && l.asked != 0 {
		// Others may need what there is: take only what is spent at once.
		n = max(sluice.Token, min(n, int64(l.rate*gap.Seconds())))
	}
	return min(max(n, l.waiting), l.share())
}

// table finds the local state of a bucket. It is bounded: beyond that, new
// buckets are decided by the store.
type table struct {
	seed    maphash.Seed
	ordered bool // for tests: buckets are treated in the same order each time
	shards  [tableShards]tableShard
	most    int // buckets a shard
}

const tableShards = 256

type tableShard struct {
	mu      sync.Mutex
	byHash  map[uint64]*local // the first of those with that hash
	buckets int
}

func newTable(buckets int) *table {
	t := &table{seed: maphash.MakeSeed(), most: max(1, buckets/tableShards)}
	for i := range t.shards {
		t.shards[i].byHash = map[uint64]*local{}
	}
	return t
}

// hash is what a bucket is found by.
func (t *table) hash(k *sluice.Key) uint64 {
	if t.ordered {
		return uint64(crc32.ChecksumIEEE([]byte(k.String())))
	}
	return maphash.Comparable(t.seed, *k)
}

// shard is where buckets of a hash are.
func (t *table) shard(hash uint64) *tableShard { return &t.shards[hash%tableShards] }

// lock finds a bucket and locks its shard. The bucket may be nil.
func (t *table) lock(k *sluice.Key) (*tableShard, *local) {
	hash := t.hash(k)
	sh := t.shard(hash)
	sh.mu.Lock()
	return sh, sh.find(k, hash)
}

// find is the bucket's state, or nil. The caller holds the shard's lock, here
// and below.
func (sh *tableShard) find(k *sluice.Key, hash uint64) *local {
	l := sh.byHash[hash]
	for l != nil && l.key != *k {
		l = l.next
	}
	return l
}

// local is the bucket's state, new if need be; nil if the table is full.
func (sh *tableShard) local(k *sluice.Key, hash uint64, limit *sluice.Limit, most int) *local {
	l := sh.find(k, hash)
	if l == nil && sh.buckets < most {
		l = &local{key: *k, hash: hash, limit: *limit, next: sh.byHash[hash]}
		sh.byHash[hash] = l
		sh.buckets++
	}
	return l
}

// all are the shard's buckets. Whoever goes through them may forget each as it
// comes.
func (sh *tableShard) all() iter.Seq[*local] {
	return func(yield func(*local) bool) {
		for _, l := range sh.byHash {
			for l != nil {
				next := l.next
				if !yield(l) {
					return
				}
				l = next
			}
		}
	}
}

// forget drops a bucket.
func (sh *tableShard) forget(l *local) {
	sh.buckets--
	first := sh.byHash[l.hash]
	switch {
	case first != l:
		for first.next != l {
			first = first.next
		}
		first.next = l.next
	case l.next != nil:
		sh.byHash[l.hash] = l.next
	default:
		delete(sh.byHash, l.hash)
	}
}
