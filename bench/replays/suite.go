// Package replays is the suite of idempotent writes: what a key costs on each
// store that keeps responses.
package replays

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	pgreplays "github.com/sluice-go/sluice/postgres/replaystore"
	"github.com/sluice-go/sluice/redis"
	redisreplays "github.com/sluice-go/sluice/redis/replaystore"
	"github.com/sluice-go/sluice/sqlite"
	sqlitereplays "github.com/sluice-go/sluice/sqlite/replaystore"

	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Rounds  int
	Slot    time.Duration // how long each store does one thing in a round
	Callers int
	Log     io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Rounds: 5, Slot: time.Second, Callers: 16, Log: log}
}

// Quick runs everything once, for so short that the figures mean nothing.
func Quick(log io.Writer) Options {
	return Options{Rounds: 1, Slot: 20 * time.Millisecond, Callers: 4, Log: log}
}

// things are what is done with a key, in order: the second and third need keys
// that the first has left behind.
var things = []string{"first run", "replay", "conflict"}

// contender is a store.
type contender struct {
	name   string
	keeper *idempotency.Keeper
	runs   atomic.Int64 // keys that have run
	rates  [3][]float64
	times  [3][]time.Duration // the median of each round
}

// response is what is stored and replayed.
var response = idempotency.Response{
	Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: make([]byte, 1024),
}

// Run measures all stores in turns.
func Run(o Options) (s *report.Suite, err error) {
	contenders, shut, err := open(o)
	defer func() { err = errors.Join(err, shut()) }()
	if err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for turn := range contenders {
			c := contenders[(turn+round)%len(contenders)] // nobody is always the first
			for thing := range things {
				fmt.Fprintf(o.Log, "replays: round %d: %s: %s\n", round+1, c.name, things[thing])
				if err := c.measure(o, thing); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", c.name, things[thing], err)
				}
			}
		}
	}
	s = &report.Suite{
		Name:  "replays",
		Title: "Idempotent writes",
		Intro: fmt.Sprintf(`%d callers in one process, with servers beside them: PostgreSQL with fsync and
synchronous_commit on, SQLite with synchronous=full, Redis without persistence.
A first run claims a key and stores a response of 1 KiB, which is two calls of the
store; the work itself takes no time. A replay finds the response. A conflict
finds that somebody else is at it. Each round has keys of its own.`, o.Callers),
	}
	rates := report.Table{Title: "Requests per second", Header: append([]string{"store"}, things...)}
	times := report.Table{Title: "Median time of a request", Header: append([]string{"store"}, things...),
		Note: "There are more callers than cores, so part of it is waiting for a core, or for others on the same disk."}
	for _, c := range contenders {
		rate, took := []string{c.name}, []string{c.name}
		for thing := range things {
			rate = append(rate, report.Count(median(c.rates[thing])))
			took = append(took, median(c.times[thing]).Round(100*time.Nanosecond).String())
		}
		rates.Add(rate...)
		times.Add(took...)
	}
	s.Tables = append(s.Tables, rates, times)
	return s, nil
}

func median[T int64 | float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// measure has callers do one thing for a while.
func (c *contender) measure(o Options, thing int) error {
	ctx := context.Background()
	known := c.runs.Load()
	if thing == 2 { // keys that are never finished
		for i := range int64(o.Callers) {
			if _, err := c.claim(ctx, "busy-"+strconv.FormatInt(i, 10), idempotency.Claimed, idempotency.Busy); err != nil {
				return err
			}
		}
	}
	errs, took := make([]error, o.Callers), make([][]time.Duration, o.Callers)
	began := time.Now()
	var group sync.WaitGroup
	for caller := range o.Callers {
		group.Go(func() {
			for i := int64(caller); time.Since(began) < o.Slot && errs[caller] == nil; i += int64(o.Callers) {
				start := time.Now()
				switch thing {
				case 0:
					errs[caller] = c.first(ctx, c.runs.Add(1))
				case 1:
					_, errs[caller] = c.claim(ctx, "run-"+strconv.FormatInt(1+i%known, 10), idempotency.Finished)
				case 2:
					_, errs[caller] = c.claim(ctx, "busy-"+strconv.FormatInt(i%int64(o.Callers), 10), idempotency.Busy)
				}
				took[caller] = append(took[caller], time.Since(start))
			}
		})
	}
	group.Wait()
	all := slices.Concat(took...)
	c.rates[thing] = append(c.rates[thing], float64(len(all))/time.Since(began).Seconds())
	c.times[thing] = append(c.times[thing], median(all))
	return errors.Join(errs...)
}

func scope(key string) idempotency.Scope {
	return idempotency.Scope{Method: http.MethodPost, Route: "orders", Key: key}
}

// first claims a key, and ends the claim.
func (c *contender) first(ctx context.Context, number int64) error {
	key := "run-" + strconv.FormatInt(number, 10)
	token, err := c.claim(ctx, key, idempotency.Claimed)
	if err != nil {
		return err
	}
	return c.keeper.Complete(ctx, scope(key), token, response, time.Hour)
}

// claim claims a key, and wants one of the verdicts.
func (c *contender) claim(ctx context.Context, key string, want ...idempotency.Verdict) (idempotency.Token, error) {
	token := idempotency.NewToken()
	a, err := c.keeper.Claim(ctx, idempotency.Claim{Scope: scope(key), Token: token, Life: time.Hour, TTL: time.Hour})
	if err == nil && !slices.Contains(want, a.Verdict) {
		err = fmt.Errorf("the verdict on %s is %s, want %s", key, a.Verdict, want)
	}
	if err == nil && a.Verdict == idempotency.Finished {
		_, err = c.keeper.Replay(&a)
	}
	return token, err
}

// open opens all stores. shut closes those that are open, also after an error.
func open(o Options) (all []*contender, shut func() error, err error) {
	var closers []func() error
	shut = func() (err error) {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
		return err
	}
	ctx := context.Background()
	add := func(name string, store idempotency.Store, failed error) {
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, failed))
			return
		}
		keeper, failed := idempotency.New(idempotency.Config{Store: store, Log: slog.New(slog.DiscardHandler)})
		closers = append(closers, store.Close)
		if failed != nil {
			err = errors.Join(err, failed)
			return
		}
		closers = append(closers, keeper.Close)
		all = append(all, &contender{name: name, keeper: keeper})
	}
	memory, failed := idempotency.NewMemory(idempotency.MemoryConfig{})
	add("memory", memory, failed)

	dir, failed := os.MkdirTemp("", "sluice-replays-")
	if failed != nil {
		return all, shut, failed
	}
	closers = append(closers, func() error { return os.RemoveAll(dir) })
	db, failed := sqlite.Open(ctx, filepath.Join(dir, "sluice.db"))
	if failed != nil {
		return all, shut, failed
	}
	closers = append(closers, db.Close)
	add("SQLite", sqlitereplays.New(db, nil), nil)

	server, failed := postgrestest.New("fsync=on", "synchronous_commit=on")
	if failed != nil {
		return all, shut, failed
	}
	closers = append(closers, server.Close)
	address, failed := server.NewDatabase()
	if failed != nil {
		return all, shut, failed
	}
	pg, failed := pgreplays.Open(ctx, postgres.Config{Address: address, MaxConns: max(o.Callers, 2), Timeout: 20 * time.Second})
	add("PostgreSQL", pg, failed)

	rd, failed := redisserver.Start()
	if failed != nil {
		return all, shut, failed
	}
	closers = append(closers, rd.Close)
	red, failed := redisreplays.Open(ctx, redis.Config{Address: "redis://" + rd.Address})
	add("Redis", red, failed)
	return all, shut, err
}
