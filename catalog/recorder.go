package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

// RecorderConfig configures a [Recorder].
type RecorderConfig struct {
	// Store keeps the usage. It stays the caller's to close.
	Store Store

	// Every is how often usage is written, and so how much a crash loses at
	// most. 0 means a second.
	Every time.Duration

	// Hours and Days are how long hourly and daily rows are kept. 0 means 30
	// days and two years.
	Hours, Days time.Duration

	// Series is how many different combinations of entity, resource, limit and
	// hour one node keeps apart between two writes. What others consume is
	// counted as [OtherEntity]'s. 0 means 100000.
	Series int

	// Stored is how many different series are stored in a namespace, because
	// callers can choose names. What further ones consume is counted as
	// [OtherEntity]'s, and said in the log. Nodes look once a minute how many
	// there are, so several together can store a few more. 0 means 200000.
	Stored int

	// Log gets what goes wrong in the background. nil means slog.Default.
	Log *slog.Logger

	// Clock is for tests. nil means time.Now.
	Clock func() time.Time
}

func (c RecorderConfig) withDefaults() RecorderConfig {
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Hours == 0 {
		c.Hours = 30 * 24 * time.Hour
	}
	if c.Days == 0 {
		c.Days = 2 * 365 * 24 * time.Hour
	}
	if c.Series == 0 {
		c.Series = 100_000
	}
	if c.Stored == 0 {
		c.Stored = 200_000
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

func (c RecorderConfig) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("catalog: recorder.store: must be set")
	case c.Every < 10*time.Millisecond || c.Every > time.Minute:
		return badinput.Field("catalog: recorder.every", c.Every, "must be from 10ms to a minute")
	case c.Hours < time.Hour:
		return badinput.Field("catalog: recorder.hours", c.Hours, "must be an hour at least")
	case c.Days < 24*time.Hour:
		return badinput.Field("catalog: recorder.days", c.Days, "must be a day at least")
	case c.Series < 1 || c.Series > 10_000_000:
		return badinput.Field("catalog: recorder.series", c.Series, "must be from 1 to 10000000")
	case c.Stored < 1 || c.Stored > 100_000_000:
		return badinput.Field("catalog: recorder.stored", c.Stored, "must be from 1 to 100000000")
	}
	return nil
}

// nodesKept is how long the number of a node's last batch is remembered after
// it; nobody sends a batch again after that.
const nodesKept = 7 * 24 * time.Hour

// Recorder counts what is consumed, as a [sluice.Observer], and writes it
// down every second: one row for each series however many takes there were.
// A write whose outcome is not known is sent again under the same number, so
// it counts once. What was not written when the process is killed is lost:
// the last second, and as long as the store was away before it.
//
// A change is booked in the hour and the day in which its take was made, and in
// the lifetime total of its series: a lease that is settled later, or on
// another node, corrects what was booked then. Only takes are counted.
//
// What is in flight under a concurrency limit is not consumed and not counted.
type Recorder struct {
	config RecorderConfig
	node   string

	// Only the background uses these.
	seq    int64            // of the last batch
	unsent []*UsageBatch    // in order of their numbers
	erased map[string]int64 // the versions of ErasedGuard that are known, by namespace; never changed in place
	sums   map[bin]amount   // what was counted and is not in a batch yet; kept for its room
	rooms  map[string]*room // by namespace
	pruned time.Time        // when totals were last looked through

	each   int // series in a shard
	shards [usageShards]usageShard

	written, failures, other atomic.Int64

	flush, pruning chan chan error

	stop   context.CancelFunc
	done   chan struct{}
	closed sync.Once
}

const usageShards = 16

type usageShard struct {
	sync.Mutex
	now, spare map[bin]amount // spare is empty, and kept for its room
	other      map[bin]amount // of those for whom there is no room
}

// bin is where a change is counted: a series and when its hour begins, in Unix
// seconds.
type bin struct {
	sluice.Key
	hour int64
}

// amount is what was counted in a bin.
type amount struct {
	tokens, takes int64
	first         int64 // the earliest take that changed it, in Unix microseconds
	last          int64 // when it was last taken; 0 if it was not
}

func (a amount) plus(b amount) amount {
	if a == (amount{}) {
		return b
	}
	return amount{a.tokens + b.tokens, a.takes + b.takes, min(a.first, b.first), max(a.last, b.last)}
}

var _ sluice.Observer = (*Recorder)(nil)

// NewRecorder starts a recorder. Close ends it.
func NewRecorder(config RecorderConfig) (*Recorder, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Recorder{config: config, node: rand.Text(), each: max(1, config.Series/usageShards),
		sums: map[bin]amount{}, rooms: map[string]*room{}, erased: map[string]int64{},
		flush: make(chan chan error), pruning: make(chan chan error), stop: stop, done: make(chan struct{})}
	for i := range r.shards {
		r.shards[i].now, r.shards[i].spare, r.shards[i].other = map[bin]amount{}, map[bin]amount{}, map[bin]amount{}
	}
	go r.run(ctx)
	return r, nil
}

// Decided does nothing: a decision alone is not usage.
func (r *Recorder) Decided(*sluice.Take, *sluice.Decision, error, time.Duration) {}

// Waited does nothing: waiting consumes nothing.
func (r *Recorder) Waited(*sluice.Take, time.Duration, bool) {}

// Consumed counts a change of net consumption.
func (r *Recorder) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	if l.Algorithm == sluice.Concurrency || strings.HasPrefix(k.Resource, "$") { // the doors' own buckets
		return
	}
	if c.Taken.IsZero() {
		c.Taken = r.config.Clock()
	}
	n := amount{tokens: c.Amount.Thousandths(), first: c.Taken.UnixMicro()}
	if c.Take {
		n.takes, n.last = 1, n.first
	}
	const hour = int64(time.Hour / time.Second)
	at := bin{k, c.Taken.Unix() / hour * hour}
	sh := &r.shards[maphash.Comparable(seed, k)%usageShards]
	sh.Lock()
	defer sh.Unlock()
	a, known := sh.now[at]
	if !known {
		if len(sh.now) >= r.each {
			at.Entity = OtherEntity
			if _, known = sh.other[at]; !known && len(sh.other) >= r.each {
				at.Resource, at.Limit = OtherEntity, OtherEntity
			}
			sh.other[at] = sh.other[at].plus(n)
			r.other.Add(1)
			return
		}
		// The key may be a part of a request that is larger.
		at.Key = sluice.Key{Namespace: strings.Clone(k.Namespace), Entity: strings.Clone(k.Entity), Resource: strings.Clone(k.Resource), Limit: strings.Clone(k.Limit)}
	}
	sh.now[at] = a.plus(n)
}

// RecorderStats are the figures of a recorder. They only grow.
type RecorderStats struct {
	Written  int64 // rows
	Failures int64 // writes that failed, and are tried again
	Other    int64 // changes counted as OtherEntity's
}

// Stats are the figures of the recorder.
func (r *Recorder) Stats() RecorderStats {
	return RecorderStats{r.written.Load(), r.failures.Load(), r.other.Load()}
}

// Flush writes down what was counted until now.
func (r *Recorder) Flush(ctx context.Context) error { return r.ask(ctx, r.flush) }

// Prune removes usage that is older than it is kept, in all namespaces. The
// recorder does so by itself every hour.
func (r *Recorder) Prune(ctx context.Context) error { return r.ask(ctx, r.pruning) }

// ask has the background do something now.
func (r *Recorder) ask(ctx context.Context, what chan chan error) error {
	answer := make(chan error, 1)
	select {
	case what <- answer:
	case <-r.done:
		return sluice.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes down what was counted until now, trying for a few seconds if it
// must, and ends the recorder.
func (r *Recorder) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	for {
		if err = r.Flush(ctx); err == nil || errors.Is(err, sluice.ErrClosed) || ctx.Err() != nil {
			break
		}
		backoff.Sleep(ctx, 50*time.Millisecond)
	}
	r.closed.Do(r.stop)
	<-r.done
	if errors.Is(err, sluice.ErrClosed) {
		return nil
	}
	return err
}
