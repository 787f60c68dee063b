// Package replaystore keeps the replays of idempotent writes in Redis.
package replaystore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/redis"
)

// Store is an [idempotency.Store] on Redis. It is safe for concurrent use.
//
// Each record is a hash under a key of its own, which expires by itself. All
// calls on a record are one script, which also keeps the lists by which the
// records of a tenant are found. A server that evicts keys forgets records,
// and so does one that fails over before a record reached its replica: what
// they were about may then run again.
type Store struct{ db *redis.DB }

var _ idempotency.Store = (*Store)(nil)

const prefix = redis.Prefix + "replay:"

//go:embed lua/replay.lua
var script string

var scriptSHA = fmt.Sprintf("%x", sha1.Sum([]byte(script)))

// Open connects to Redis. It fails if the address is wrong or no server answers.
// Later the store reconnects by itself.
func Open(ctx context.Context, config redis.Config) (*Store, error) {
	db, err := redis.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close ends all connections.
func (r *Store) Close() error { return r.db.Close() }

// given is the time that tests give.
func (r *Store) given() string {
	if r.db.Config.Clock == nil {
		return ""
	}
	return strconv.FormatInt(r.db.Config.Clock().UnixMicro(), 10)
}

func (r *Store) command(command, text string, id idempotency.ID, what string, args ...string) rueidis.Completed {
	keys := keysOf(id)
	return r.db.Client.B().Arbitrary(command, text, "3").Keys(keys[:]...).Args(what, r.given(), string(id[:])).Args(args...).Build()
}

// call runs the script on a record, as [redis.Retry] does.
func (r *Store) call(ctx context.Context, id idempotency.ID, what string, args ...string) (reply []rueidis.RedisMessage, err error) {
	if err := r.db.Ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.db.Config.Timeout)
	defer cancel()
	err = redis.Retry(ctx, func(known bool) error {
		command, text := "EVALSHA", scriptSHA
		if !known {
			command, text = "EVAL", script
		}
		reply, err = r.db.Client.Do(ctx, r.command(command, text, id, what, args...)).ToArray()
		return err
	})
	return reply, err
}

// word is a reply's first part, which says how it went.
func word(reply []rueidis.RedisMessage) (string, error) {
	if len(reply) == 0 {
		return "", errReply
	}
	return reply[0].ToString()
}

var errReply = fmt.Errorf("redis replays: %w: a reply that this version does not know", sluice.ErrUnknown)

var verdicts = map[string]idempotency.Verdict{
	"claimed": idempotency.Claimed, "takenover": idempotency.TakenOver, "busy": idempotency.Busy,
	"unknown": idempotency.Unknown, "finished": idempotency.Finished, "mismatch": idempotency.Mismatch,
}

// Claim claims a key.
func (r *Store) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	s := &c.Scope
	takeOver := "0"
	if c.TakeOver {
		takeOver = "1"
	}
	reply, err := r.call(ctx, s.ID(), "claim", string(c.Fingerprint[:]), string(c.Token[:]),
		micros(c.Life), micros(c.TTL), takeOver, s.Tenant, s.Method, s.Route, s.Key)
	if err != nil {
		return idempotency.Answer{}, err
	}
	said, err := word(reply)
	if err != nil {
		return idempotency.Answer{}, err
	}
	verdict, ok := verdicts[said]
	if !ok {
		return idempotency.Answer{}, errReply
	}
	record, now, err := parseRecord(reply)
	return idempotency.Answer{Verdict: verdict, Record: record, Now: now}, err
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// parseRecord reads a record: the second and third part of a reply.
func parseRecord(reply []rueidis.RedisMessage) (rec idempotency.Record, now time.Time, err error) {
	if len(reply) != 3 {
		return rec, now, errReply
	}
	text, err := reply[1].ToString()
	if err != nil {
		return rec, now, errReply
	}
	fields, err := reply[2].AsStrSlice()
	if err != nil || len(fields) != 17 {
		return rec, now, errReply
	}
	number := func(i int) int64 {
		if fields[i] == "" {
			return 0
		}
		n, e := strconv.ParseInt(fields[i], 10, 64)
		if e != nil {
			err = errReply
		}
		return n
	}
	at := func(i int) time.Time {
		if fields[i] == "" {
			return time.Time{}
		}
		return time.UnixMicro(number(i))
	}
	n, e := strconv.ParseInt(text, 10, 64)
	if e != nil {
		err = errReply
	}
	now = time.UnixMicro(n)
	rec = idempotency.Record{
		Scope: idempotency.Scope{Tenant: fields[0], Method: fields[1], Route: fields[2], Key: fields[3]},
		State: idempotency.State(number(5)), Attempts: number(7), Started: at(8),
		Life: time.Duration(number(9)) * time.Microsecond, ClaimEnds: at(10), Finished: at(11),
		Expires: at(12), Replays: number(13), Replayed: at(14), Size: number(15),
	}
	copy(rec.Fingerprint[:], fields[4])
	copy(rec.Token[:], fields[6])
	if fields[16] != "" {
		rec.Result = []byte(fields[16])
	}
	rec.Crashed = rec.State == idempotency.Running && !now.Before(rec.ClaimEnds)
	return rec, now, err
}

// held runs what only the holder of a claim may do.
func (r *Store) held(ctx context.Context, id idempotency.ID, token idempotency.Token, what string, args ...string) error {
	reply, err := r.call(ctx, id, what, append([]string{string(token[:])}, args...)...)
	if err != nil {
		return err
	}
	switch said, err := word(reply); {
	case err != nil:
		return err
	case said == "ok":
		return nil
	case said == "lost":
		return idempotency.ErrLost
	}
	return errReply
}

// Extend extends a running claim.
func (r *Store) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, id, token, "extend", micros(life))
}

// Finish stores a result.
func (r *Store) Finish(ctx context.Context, f *idempotency.Finish) error {
	return r.held(ctx, f.ID, f.Token, "finish", strconv.Itoa(int(f.State)), micros(f.TTL), string(f.Result))
}

// Release ends a running claim.
func (r *Store) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, id, token, "release")
}

// Lookup returns a record.
func (r *Store) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	reply, err := r.call(ctx, id, "look")
	if err != nil {
		return idempotency.Record{}, err
	}
	switch said, err := word(reply); {
	case err != nil:
		return idempotency.Record{}, err
	case said == "none":
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	record, _, err := parseRecord(reply)
	return record, err
}

// Forget deletes a record.
func (r *Store) Forget(ctx context.Context, id idempotency.ID) error {
	reply, err := r.call(ctx, id, "forget")
	if err != nil {
		return err
	}
	if said, err := word(reply); err != nil || said == "ok" {
		return err
	}
	return idempotency.ErrNotFound
}

// Sweep does nothing: Redis deletes what has expired.
func (r *Store) Sweep(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }
