package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
)

// Replays is an [idempotency.Store] on Redis. It is safe for concurrent use.
//
// Each record is a hash under a key of its own, which expires by itself. All
// calls on a record are one script, which also keeps the lists by which the
// records of a tenant are found. A server that evicts keys forgets records,
// and so does one that fails over before a record reached its replica: what
// they were about may then run again.
type Replays struct {
	config Config
	client rueidis.Client
	closed atomic.Bool
}

var _ idempotency.Store = (*Replays)(nil)

const replayPrefix = prefix + "replay:"

var replayScript, replaySHA = func() (string, string) {
	b, err := luaFiles.ReadFile("lua/replay.lua")
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum(b)
	return string(b), hex.EncodeToString(sum[:])
}()

// OpenReplays connects to Redis. It fails if the address is wrong or nobody is
// there; later on, it reconnects by itself.
func OpenReplays(ctx context.Context, config Config) (*Replays, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	options, _, err := parseAddress(config.Address, config.TLS)
	if err != nil {
		return nil, fmt.Errorf("redis: address: %w", err)
	}
	tune(&options, &config)
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("redis: %w: %w", sluice.ErrUnavailable, err)
	}
	r := &Replays{config: config, client: client}
	for addr, node := range client.Nodes() {
		r.warnOfEviction(ctx, addr, node)
	}
	return r, nil
}

func (r *Replays) warnOfEviction(ctx context.Context, addr string, node rueidis.Client) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		return // not permitted, perhaps; it is only a warning
	}
	_, rest, _ := strings.Cut(info, "maxmemory_policy:")
	if policy, _, ok := strings.Cut(rest, "\r\n"); ok && policy != "noeviction" {
		r.config.Log.Warn("redis may evict records of idempotent writes, which then run again: set maxmemory-policy noeviction",
			"node", addr, "maxmemory-policy", policy)
	}
}

// Close ends all connections.
func (r *Replays) Close() error {
	if !r.closed.Swap(true) {
		r.client.Close()
	}
	return nil
}

// given is the time that tests give.
func (r *Replays) given() string {
	if r.config.Now == nil {
		return ""
	}
	return strconv.FormatInt(r.config.Now().UnixMicro(), 10)
}

func (r *Replays) command(command, text string, id idempotency.ID, what string, args ...string) rueidis.Completed {
	keys := replayKeys(id)
	return r.client.B().Arbitrary(command, text, "3").Keys(keys[:]...).Args(what, r.given(), string(id[:])).Args(args...).Build()
}

// call runs the script on a record. It goes on trying, for a while, as long as
// it is certain that nothing has happened.
func (r *Replays) call(ctx context.Context, id idempotency.ID, what string, args ...string) ([]rueidis.RedisMessage, error) {
	if r.closed.Load() {
		return nil, fmt.Errorf("redis replays: %w", sluice.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	command, text := "EVALSHA", replaySHA
	for attempt := 0; ; attempt++ {
		cmd := r.command(command, text, id, what, args...)
		reply, err := r.client.Do(ctx, cmd).ToArray()
		if err == nil {
			return reply, nil
		}
		o := judge(err)
		switch {
		case o == noScript:
			command, text = "EVAL", replayScript
			continue
		case o == notYet && pause(ctx, attempt):
			continue
		}
		return nil, failure(err, o)
	}
}

// replayWord is a reply's first part, which says how it went.
func replayWord(reply []rueidis.RedisMessage) (string, error) {
	if len(reply) == 0 {
		return "", errReplay
	}
	return reply[0].ToString()
}

var errReplay = fmt.Errorf("redis replays: %w: a reply that this version does not know", sluice.ErrUnknown)

var replayVerdicts = map[string]idempotency.Verdict{
	"claimed": idempotency.Claimed, "takenover": idempotency.TakenOver, "busy": idempotency.Busy,
	"unknown": idempotency.Unknown, "finished": idempotency.Finished, "mismatch": idempotency.Mismatch,
}

// Claim asks for a key.
func (r *Replays) Claim(ctx context.Context, c *idempotency.Claim) (idempotency.Answer, error) {
	s := &c.Scope
	takeOver := "0"
	if c.TakeOver {
		takeOver = "1"
	}
	reply, err := r.call(ctx, s.ID(), "claim", string(c.Fingerprint[:]), string(c.Token[:]),
		replayMicros(c.Life), replayMicros(c.TTL), takeOver, s.Tenant, s.Method, s.Route, s.Key)
	if err != nil {
		return idempotency.Answer{}, err
	}
	said, err := replayWord(reply)
	if err != nil {
		return idempotency.Answer{}, err
	}
	verdict, ok := replayVerdicts[said]
	if !ok {
		return idempotency.Answer{}, errReplay
	}
	record, now, err := parseReplay(reply)
	return idempotency.Answer{Verdict: verdict, Record: record, Now: now}, err
}

func replayMicros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// parseReplay reads a record: the second and third part of a reply.
func parseReplay(reply []rueidis.RedisMessage) (rec idempotency.Record, now time.Time, err error) {
	if len(reply) != 3 {
		return rec, now, errReplay
	}
	text, err := reply[1].ToString()
	if err != nil {
		return rec, now, errReplay
	}
	fields, err := reply[2].AsStrSlice()
	if err != nil || len(fields) != 17 {
		return rec, now, errReplay
	}
	number := func(i int) int64 {
		if fields[i] == "" {
			return 0
		}
		n, e := strconv.ParseInt(fields[i], 10, 64)
		if e != nil {
			err = errReplay
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
		err = errReplay
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
func (r *Replays) held(ctx context.Context, id idempotency.ID, token idempotency.Token, what string, args ...string) error {
	reply, err := r.call(ctx, id, what, append([]string{string(token[:])}, args...)...)
	if err != nil {
		return err
	}
	switch said, err := replayWord(reply); {
	case err != nil:
		return err
	case said == "ok":
		return nil
	case said == "lost":
		return idempotency.ErrLost
	}
	return errReplay
}

// Extend moves the end of a claim.
func (r *Replays) Extend(ctx context.Context, id idempotency.ID, token idempotency.Token, life time.Duration) error {
	return r.held(ctx, id, token, "extend", replayMicros(life))
}

// Finish stores a result.
func (r *Replays) Finish(ctx context.Context, f *idempotency.Finish) error {
	return r.held(ctx, f.ID, f.Token, "finish", strconv.Itoa(int(f.State)), replayMicros(f.TTL), string(f.Result))
}

// Release ends a running claim.
func (r *Replays) Release(ctx context.Context, id idempotency.ID, token idempotency.Token) error {
	return r.held(ctx, id, token, "release")
}

// Lookup finds a record.
func (r *Replays) Lookup(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	reply, err := r.call(ctx, id, "look")
	if err != nil {
		return idempotency.Record{}, err
	}
	switch said, err := replayWord(reply); {
	case err != nil:
		return idempotency.Record{}, err
	case said == "none":
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	record, _, err := parseReplay(reply)
	return record, err
}

// Forget deletes a record.
func (r *Replays) Forget(ctx context.Context, id idempotency.ID) error {
	reply, err := r.call(ctx, id, "forget")
	if err != nil {
		return err
	}
	if said, err := replayWord(reply); err != nil || said == "ok" {
		return err
	}
	return idempotency.ErrNotFound
}

// Sweep does nothing: Redis deletes what has expired.
func (r *Replays) Sweep(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() }
