package postgres

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice"
)

// Store is a [sluice.Store] on PostgreSQL. It is safe for concurrent use.
type Store struct {
	config Config
	pool   *pgxpool.Pool
	pooled bool // there is a pooler between here and the server
	sql    statements
	specs  specs
	marks  marks
	clock  clock

	takes       *queue
	settlements *queue
	patience    *string // how long to wait for a bucket's lock, if the session does not know
	watch       watch
	decided     atomic.Int64
	batches     atomic.Int64

	closed  atomic.Bool
	stop    context.Context // ends with the store
	cancel  context.CancelFunc
	stopped sync.WaitGroup
}

var (
	_ sluice.Store   = (*Store)(nil)
	_ sluice.Watcher = (*Store)(nil)
)

// Open connects, creates or migrates the schema where needed, and is ready to
// be used. Close ends it.
func Open(ctx context.Context, config Config) (*Store, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{config: config, sql: newStatements(config.Schema)}
	s.marks.seed = maphash.MakeSeed()
	s.takes, s.settlements = newQueue(s.sendTakes), newQueue(s.sendSettlements)
	s.watch.init()
	s.stop, s.cancel = context.WithCancel(context.Background())
	if s.pool, s.pooled, err = connect(ctx, &config); err != nil {
		return nil, err
	}
	if s.pooled {
		patience := milliseconds(config.patience())
		s.patience = &patience
	}
	if config.Clock == nil { // stores with different clocks must not sweep each other's buckets
		s.stopped.Go(s.sweepRegularly)
	}
	s.stopped.Go(s.notifyOthers)
	return s, nil
}

// sendTakes has a batch of takes decided.
func (s *Store) sendTakes(b *batch) {
	s.decided.Add(int64(len(b.requests)))
	s.batches.Add(1)
	if b.requests[0].kind == plainTake {
		s.sendPlain(b)
	} else {
		s.sendGeneral(b)
	}
}

// Close waits for calls that are under way, and ends all connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.takes.close()
	s.settlements.close()
	s.cancel()
	s.stopped.Wait()
	s.pool.Close()
	return nil
}

// Capabilities are all there are.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// statements are what the store sends, with the schema's name filled in.
type statements struct {
	takePlain, take, adjust, forget, grant, giveBack, settle, sweep string
}

func newStatements(schema string) statements {
	call := func(function string, args int) string {
		holders := make([]string, args)
		for i := range holders {
			holders[i] = fmt.Sprintf("$%d", i+1)
		}
		return fmt.Sprintf("SELECT * FROM %s.%s(%s)", schema, function, strings.Join(holders, ", "))
	}
	return statements{
		takePlain: call("take_plain_v2", 18),
		take:      call("take_v2", 26),
		adjust:    call("adjust_v2", 15),
		forget:    call("forget_v2", 6),
		grant:     call("grant_v2", 23),
		giveBack:  call("give_back_v2", 10),
		settle:    call("settle_v2", 9),
		sweep:     call("sweep_v2", 3),
	}
}

const (
	attempts   = 5
	firstPause = 5 * time.Millisecond
)

// call runs one function of the database. It runs it again only as long as it
// is certain that it has not happened. now is where the function leaves the
// time that it was there, if it does.
func (s *Store) call(ctx context.Context, now *int64, run func(context.Context, *pgx.Conn) error) error {
	var asked time.Time
	err := attempt(ctx, s.pool, s.config.Timeout, s.closed.Load, func(ctx context.Context, conn *pgx.Conn) error {
		asked = time.Now()
		return run(ctx, conn)
	})
	if err == nil && now != nil && s.config.Clock == nil {
		s.clock.saw(*now, asked, s.config.Log)
	}
	return err
}

// pause waits before the next attempt, longer each time, and reports whether
// there is time for one.
func pause(ctx context.Context, attempt int) bool {
	longest := firstPause << (attempt - 1)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ready says whether the store can be used at all.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// given is the time that tests give to the database, or nil.
func (s *Store) given() *int64 {
	if s.config.Clock == nil {
		return nil
	}
	now := s.config.Clock().UnixMicro()
	return &now
}

// reckon is the database's time as far as this process can tell.
func (s *Store) reckon() int64 {
	if s.config.Clock != nil {
		return s.config.Clock().UnixMicro()
	}
	return s.clock.now()
}

// Stats are counts since Open.
type Stats struct {
	Takes        int64 // that were decided
	Batches      int64 // in which they went to the database
	ClockBack    int64 // times the database's clock was set back
	ClockForward int64 // times it was set forward
	ClockGaps    int64 // times it was not heard of for over 15 s
}

// Stats tells what the store has done and noticed.
func (s *Store) Stats() Stats {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return Stats{
		Takes: s.decided.Load(), Batches: s.batches.Load(),
		ClockBack: s.clock.back, ClockForward: s.clock.forward, ClockGaps: s.clock.gaps,
	}
}
