package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// Config of a keeper. Only Store must be given.
type Config struct {
	Store Store

	// Docs is where people can read about the errors that clients get, which
	// link to it. Empty means this project's page.
	Docs string

	// Log gets a line when something goes wrong. Nil means slog.Default.
	Log *slog.Logger
}

const defaultDocs = "https://github.com/sluice-go/sluice/blob/main/docs/idempotency.md"

const (
	noteEvery  = time.Second
	sweepEvery = 15 * time.Second
	sweepMost  = 500 // records in one batch: a few milliseconds

	// storePatience bounds a call to the store that nobody waits for.
	storePatience = 5 * time.Second
)

// The bounds of what a claim may ask for.
const (
	MinLife = 100 * time.Millisecond
	MaxLife = time.Hour
	MinTTL  = time.Second
	MaxTTL  = 90 * 24 * time.Hour
)

// Keeper keeps the records of writes. It is safe for concurrent use.
type Keeper struct {
	store Store
	docs  string
	log   *slog.Logger
	seen  activity
	later later

	life context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// New makes a keeper. Close ends it, but not its store.
func New(config Config) (*Keeper, error) {
	if config.Store == nil {
		return nil, errors.New("idempotency: Store: must be given")
	}
	if config.Docs == "" {
		config.Docs = defaultDocs
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	k := &Keeper{store: config.Store, docs: config.Docs, log: config.Log}
	k.life, k.stop = context.WithCancel(context.Background())
	k.wg.Go(k.noteRegularly)
	k.wg.Go(k.sweepRegularly)
	return k, nil
}

// Close waits for what goes on in the background, and notes the last figures.
// It comes after the server has ended its requests, and before the store is
// closed.
func (k *Keeper) Close() error {
	k.stop()
	k.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	return k.note(ctx)
}

// Claim asks for a key. If the answer's verdict is held, the work is to be
// done and ended by [Keeper.Complete] or [Keeper.Release]; until then
// [Keeper.Extend] has to come before the claim lapses.
func (k *Keeper) Claim(ctx context.Context, c Claim) (Answer, error) {
	if err := c.validate(); err != nil {
		return Answer{}, err
	}
	a, err := k.store.Claim(ctx, &c)
	if err != nil {
		k.seen.count(c.Scope.Tenant, func(s *Stats) { s.Unavailable++ })
		return Answer{}, err
	}
	k.seen.count(c.Scope.Tenant, func(s *Stats) {
		switch a.Verdict {
		case Claimed:
			s.FirstRuns++
		case TakenOver:
			s.Takeovers++
		case Busy:
			s.Conflicts++
		case Unknown:
			s.Unknown++
		case Mismatch:
			s.Mismatches++
		}
	})
	if a.Verdict == TakenOver {
		k.log.Warn("idempotency: a run crashed or failed and is taken over", "tenant", c.Scope.Tenant,
			"method", c.Scope.Method, "route", c.Scope.Route, "attempt", a.Record.Attempts)
	}
	return a, nil
}

func (c *Claim) validate() error {
	if err := c.Scope.Validate(); err != nil {
		return err
	}
	switch {
	case c.Token == Token{}:
		return &sluice.FieldError{Field: "idempotency.token", Value: c.Token, Reason: "must be drawn by NewToken"}
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return between("ttl", c.TTL, MinTTL, MaxTTL)
	case c.Life < MinLife || c.Life > min(MaxLife, c.TTL):
		return between("life", c.Life, MinLife, min(MaxLife, c.TTL))
	}
	return nil
}

func between(field string, value, least, most time.Duration) error {
	return &sluice.FieldError{Field: "idempotency." + field, Value: value, Reason: fmt.Sprintf("must be %s to %s", least, most)}
}

// Replay is the response of an answer whose verdict is Finished, and counts as
// a replay. If the response says what was read of a large upload, comparing it
// is up to the caller.
func (k *Keeper) Replay(a *Answer) (Response, error) {
	r, err := DecodeResponse(a.Record.Result)
	if err == nil {
		k.countReplay(a, &r)
	}
	return r, err
}

func (k *Keeper) countReplay(a *Answer, r *Response) {
	k.seen.count(a.Record.Scope.Tenant, func(s *Stats) {
		if r.Lost != "" {
			s.NotKept++
			return
		}
		s.Replays++
		s.BytesReplayed += int64(len(r.Body))
	})
	k.seen.replayed(a.Record.Scope.ID(), a)
}

// Extend makes a claim last so long from now, or answers
// [ErrLost].
func (k *Keeper) Extend(ctx context.Context, s Scope, token Token, life time.Duration) error {
	if life < MinLife || life > MaxLife {
		return between("life", life, MinLife, MaxLife)
	}
	return k.store.Extend(ctx, s.ID(), token, life)
}

// Complete ends a claim: from now on, for so long, its response is r.
func (k *Keeper) Complete(ctx context.Context, s Scope, token Token, r Response, ttl time.Duration) error {
	return k.finish(ctx, s, token, Done, &r, ttl)
}

func (k *Keeper) finish(ctx context.Context, s Scope, token Token, state State, r *Response, ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return between("ttl", ttl, MinTTL, MaxTTL)
	}
	result, err := r.Encode()
	if err != nil {
		return err
	}
	f := &Finish{ID: s.ID(), Token: token, State: state, Result: result, TTL: ttl}
	if err := k.store.Finish(ctx, f); err != nil {
		k.countLost(s.Tenant, err)
		return err
	}
	k.seen.count(s.Tenant, func(s *Stats) { s.BytesStored += int64(len(result)) })
	return nil
}

// Release ends a claim as if it had never been.
func (k *Keeper) Release(ctx context.Context, s Scope, token Token) error {
	if err := k.store.Release(ctx, s.ID(), token); err != nil {
		k.countLost(s.Tenant, err)
		return err
	}
	k.seen.count(s.Tenant, func(s *Stats) { s.Released++ })
	return nil
}

func (k *Keeper) countLost(tenant string, err error) {
	if errors.Is(err, ErrLost) {
		k.seen.count(tenant, func(s *Stats) { s.Lost++ })
	}
}

func (k *Keeper) noteRegularly() {
	k.every(noteEvery, func(ctx context.Context) {
		// What has begun is ended, also when the keeper is closed: it waits.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
		defer cancel()
		if err := k.note(ctx); err != nil {
			k.log.Warn("idempotency: figures could not be noted", "error", err)
		}
	})
}

// note tells the store what was seen. What gets lost is lost: figures are not
// worth counting twice.
func (k *Keeper) note(ctx context.Context) error {
	news := k.seen.take()
	if news == nil {
		return nil
	}
	return k.store.Note(ctx, news)
}

func (k *Keeper) sweepRegularly() {
	k.every(sweepEvery, func(ctx context.Context) {
		for {
			n, err := k.store.Sweep(ctx, sweepMost)
			if err != nil {
				k.log.Warn("idempotency: expired records could not be swept", "error", err)
			}
			if n < sweepMost || ctx.Err() != nil {
				return
			}
		}
	})
}

func (k *Keeper) every(d time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(k.life, max(d, storePatience))
			do(ctx)
			cancel()
		case <-k.life.Done():
			return
		}
	}
}
