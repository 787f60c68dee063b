package replaystore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/redis"
)

// The figures are a hash for each tenant and one for everyone. Which records
// were replayed last is a sorted set of their ids by time, likewise.
const (
	statsKey   = prefix + "stats"
	recentKey  = prefix + "recent"
	tenantsKey = prefix + "tenants"

	recentMost = 1000 // ids kept in each set
)

func keyOf(key, tenant string) string {
	return string(redis.AppendEscaped(append(make([]byte, 0, 64), key+":"...), tenant))
}

// Note adds to the figures. The commands are sent together but not as one
// transaction: they are about many keys.
func (r *Store) Note(ctx context.Context, a *idempotency.Activity) error {
	if err := r.db.Ready(ctx); err != nil {
		return err
	}
	if err := r.enrol(ctx, a); err != nil {
		return err
	}
	b := r.db.Client.B
	var cmds rueidis.Commands
	keep := strconv.Itoa(int(idempotency.KeepStats.Seconds()))
	expiring := make(map[string]bool)
	for _, c := range a.Counts {
		key := statsKey
		if !c.Everyone {
			key = keyOf(statsKey, c.Tenant)
			expiring[key] = true
		}
		cmds = append(cmds, b().Hincrby().Key(key).Field(c.Name).Increment(c.N).Build())
	}
	trimmed := make(map[string]bool)
	for _, p := range a.Replays {
		at := p.At.UnixMicro()
		cmds = append(cmds, r.command("EVALSHA", scriptSHA, p.ID, "note", strconv.FormatInt(p.N, 10), strconv.FormatInt(at, 10)))
		own := keyOf(recentKey, p.Tenant)
		for _, key := range []string{recentKey, own} {
			cmds = append(cmds, b().Zadd().Key(key).Gt().ScoreMember().ScoreMember(float64(at), string(p.ID[:])).Build())
			trimmed[key] = true
		}
		expiring[own] = true
	}
	for key := range trimmed {
		cmds = append(cmds, b().Zremrangebyrank().Key(key).Start(0).Stop(-recentMost-1).Build())
	}
	for key := range expiring {
		cmds = append(cmds, b().Arbitrary("EXPIRE").Keys(key).Args(keep).Build())
	}
	ctx, cancel := context.WithTimeout(ctx, 4*r.db.Config.Timeout)
	defer cancel()
	for _, reply := range r.db.Client.DoMulti(ctx, cmds...) {
		// Records are written by the script, so the server knows it, or has
		// forgotten them too.
		if err := reply.Error(); err != nil && !redis.IsNoScript(err) {
			return redis.Error(err)
		}
	}
	return nil
}

// Stats returns the figures of a tenant or of everyone.
func (r *Store) Stats(ctx context.Context, q idempotency.Query) (idempotency.Stats, error) {
	var s idempotency.Stats
	key := statsKey
	if !q.Everyone {
		key = keyOf(statsKey, q.Tenant)
	}
	ctx, cancel := context.WithTimeout(ctx, r.db.Config.Timeout)
	defer cancel()
	figures, err := r.db.Client.Do(ctx, r.db.Client.B().Hgetall().Key(key).Build()).AsIntMap()
	if err != nil {
		return s, fmt.Errorf("redis replays: %w: %w", sluice.ErrUnavailable, err)
	}
	for name, n := range figures {
		s.Add(name, n)
	}
	return s, nil
}

// Recent returns the records that were replayed last. Those that have gone are passed over.
func (r *Store) Recent(ctx context.Context, q idempotency.Query) ([]idempotency.Record, error) {
	key := recentKey
	if !q.Everyone {
		key = keyOf(recentKey, q.Tenant)
	}
	var recent []idempotency.Record
	for from := 0; len(recent) < q.Max; from += q.Max {
		ids, err := r.members(ctx, key, from, q.Max)
		if err != nil || len(ids) == 0 {
			return recent, err
		}
		for _, text := range ids {
			var id idempotency.ID
			copy(id[:], text)
			reply, err := r.call(ctx, id, "glance")
			if err != nil {
				return nil, err
			}
			record, _, err := parseRecord(reply)
			if err != nil || record.Replays == 0 {
				continue // it is gone, or has begun anew
			}
			if recent = append(recent, record); len(recent) == q.Max {
				break
			}
		}
	}
	return recent, nil
}

func (r *Store) members(ctx context.Context, key string, from, most int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.db.Config.Timeout)
	defer cancel()
	ids, err := r.db.Client.Do(ctx, r.db.Client.B().Zrevrange().Key(key).Start(int64(from)).Stop(int64(from+most-1)).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("redis replays: %w: %w", sluice.ErrUnavailable, err)
	}
	return ids, nil
}
