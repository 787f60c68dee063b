package replaystore

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/redis"
)

// The records of a namespace are spread over shareCount hash tags, each with
// two sorted sets of the ids in it: by id, in which the records of a tenant lie
// side by side, and by expiry. They are in the slot of their records, so that
// the script keeps all three in step, and a first run costs no more round
// trips than without them. A tenant is then found by asking every share,
// instead of by SCAN over all keys of everyone.
const shareCount = 64

// keysOf are the keys of a record and of the lists that it is in.
func keysOf(id idempotency.ID) [3]string {
	tag := tagOf(id, int(id[len(id)-1])%shareCount)
	ids, ends := listsOf(tag)
	return [3]string{prefix + tag + id.String(), ids, ends}
}

// tagOf is the hash tag of one share of an id's namespace.
func tagOf(id idempotency.ID, share int) string {
	b := hex.AppendEncode(append(make([]byte, 0, 24), '{'), id.Namespace())
	return string(append(hex.AppendEncode(append(b, ':'), []byte{byte(share)}), '}'))
}

func listsOf(tag string) (ids, ends string) {
	return prefix + "ids:" + tag, prefix + "ends:" + tag
}

// forgetPage is how many ids are read from a share at a time.
const forgetPage = 100

// ForgetAll deletes records of a tenant or a namespace. Each goes in a step of
// its own, as it does when it is forgotten alone.
func (r *Store) ForgetAll(ctx context.Context, whose idempotency.Whose, most int) (int, error) {
	first, last := whose.IDs()
	var from [shareCount]string // where each share's list goes on; "" at its end
	for i := range from {
		from[i] = "[" + string(first[:])
	}
	for n := 0; ; {
		ids, err := r.idsOf(ctx, first, last, &from)
		if err != nil {
			return n, err
		}
		if len(ids) == 0 {
			return n, r.forgetFigures(ctx, whose)
		}
		for len(ids) > 0 {
			if n == most {
				return n, nil
			}
			some := ids[:min(len(ids), most-n)]
			ids = ids[len(some):]
			gone, err := r.forget(ctx, whose, some)
			n += gone
			if err != nil {
				return n, err
			}
		}
	}
}

// idsOf are the next ids of every share that has any.
func (r *Store) idsOf(ctx context.Context, first, last idempotency.ID, from *[shareCount]string) (ids []idempotency.ID, err error) {
	var cmds rueidis.Commands
	var shares []int
	for share := range from {
		if from[share] == "" {
			continue
		}
		list, _ := listsOf(tagOf(first, share))
		cmds = append(cmds, r.db.Client.B().Zrangebylex().Key(list).Min(from[share]).Max("["+string(last[:])).Limit(0, forgetPage).Build())
		shares = append(shares, share)
	}
	replies, err := r.multi(ctx, cmds)
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		page, err := reply.AsStrSlice()
		if err != nil {
			return nil, redis.Error(err)
		}
		from[shares[i]] = ""
		if len(page) == forgetPage {
			from[shares[i]] = "(" + page[len(page)-1]
		}
		for _, text := range page {
			ids = append(ids, idempotency.ID([]byte(text)))
		}
	}
	return ids, nil
}

// forget deletes records if they are of whose, and answers how many were.
func (r *Store) forget(ctx context.Context, whose idempotency.Whose, ids []idempotency.ID) (n int, err error) {
	below := ""
	if whose.Below {
		below = whose.Tenant + "/"
	}
	var cmds rueidis.Commands
	for _, id := range ids {
		cmds = append(cmds, r.command("EVALSHA", scriptSHA, id, "erase", whose.Tenant, below),
			r.db.Client.B().Zrem().Key(recentKey).Member(string(id[:])).Build())
	}
	replies, err := r.multi(ctx, cmds)
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		reply, err := replies[2*i].ToArray()
		if err != nil { // alone it is tried again, if that can help
			if reply, err = r.call(ctx, id, "erase", whose.Tenant, below); err != nil {
				return n, err
			}
		}
		said, err := word(reply)
		if err != nil {
			return n, err
		}
		if said == "ok" {
			n++
		}
		if err := replies[2*i+1].Error(); err != nil {
			return n, redis.Error(err)
		}
	}
	return n, nil
}

// multi sends commands together. Each may be sent again.
func (r *Store) multi(ctx context.Context, cmds rueidis.Commands) ([]rueidis.RedisResult, error) {
	if err := r.db.Ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*r.db.Config.Timeout)
	defer cancel()
	return r.db.Client.DoMulti(ctx, cmds...), nil
}

// figuresKey is the sorted set of the tenants in a tenant's namespace that have
// figures, by when they last got some.
func figuresKey(tenant string) string {
	return keyOf(tenantsKey, idempotency.NamespaceOf(tenant))
}

// forgetFigures deletes the figures of tenants and what they replayed last.
func (r *Store) forgetFigures(ctx context.Context, whose idempotency.Whose) error {
	for tenants := []string{whose.Tenant}; len(tenants) > 0; {
		var figures, names rueidis.Commands
		for _, tenant := range tenants {
			figures = append(figures, r.db.Client.B().Unlink().Key(keyOf(statsKey, tenant)).Build(),
				r.db.Client.B().Unlink().Key(keyOf(recentKey, tenant)).Build())
			names = append(names, r.db.Client.B().Zrem().Key(figuresKey(tenant)).Member(tenant).Build())
		}
		// The names after the figures, which are found by them.
		if err := r.all(ctx, figures); err != nil {
			return err
		}
		if err := r.all(ctx, names); err != nil {
			return err
		}
		if !whose.Below {
			return nil
		}
		var err error
		if tenants, err = r.members(ctx, figuresKey(whose.Tenant), 0, forgetPage); err != nil {
			return err
		}
	}
	return nil
}

// all sends commands together that all have to succeed.
func (r *Store) all(ctx context.Context, cmds rueidis.Commands) error {
	replies, err := r.multi(ctx, cmds)
	for _, reply := range replies {
		if err := reply.Error(); err != nil {
			return redis.Error(err)
		}
	}
	return err
}

// enrol notes which tenants are about to get figures. A name is kept for longer
// than the figures, so that it does not matter that nodes' clocks differ.
func (r *Store) enrol(ctx context.Context, a *idempotency.Activity) error {
	const kept = 2 * idempotency.KeepStats
	now := time.Now()
	tenants := map[string]bool{}
	for _, c := range a.Counts {
		if !c.Everyone {
			tenants[c.Tenant] = true
		}
	}
	for _, p := range a.Replays {
		tenants[p.Tenant] = true
	}
	var cmds rueidis.Commands
	trimmed := map[string]bool{}
	for tenant := range tenants {
		key := figuresKey(tenant)
		cmds = append(cmds, r.db.Client.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(now.Unix()), tenant).Build())
		trimmed[key] = true
	}
	for key := range trimmed {
		idle := strconv.FormatInt(now.Add(-kept).Unix(), 10)
		cmds = append(cmds, r.db.Client.B().Zremrangebyscore().Key(key).Min("-inf").Max(idle).Build(),
			r.db.Client.B().Expire().Key(key).Seconds(int64(kept.Seconds())).Build())
	}
	if len(cmds) == 0 {
		return nil
	}
	return r.all(ctx, cmds)
}
