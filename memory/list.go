package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// List looks through all buckets for those that match, or through one shard if
// entity and resource are given; it is meant for people and for administration,
// not for every request. Buckets come in the order of their hashes, so that none
// is missed or seen twice however others come and go between pages.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if err := s.ready(ctx); err != nil {
		return sluice.Page{}, err
	}
	if err := q.Normalize(); err != nil {
		return sluice.Page{}, err
	}
	var shard, hash int
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "%d.%d", &shard, &hash); err != nil || shard < 0 || shard >= shardCount || hash < 0 {
			return sluice.Page{}, &sluice.FieldError{Field: "query.cursor", Value: q.Cursor, Reason: "must be the Next of an earlier page"}
		}
	}
	end := shardCount
	if q.Entity != "" && q.Resource != "" {
		subject := s.hashSubject(&sluice.Key{Namespace: q.Namespace, Entity: q.Entity, Resource: q.Resource})
		only := int(shardOf(subject))
		if shard < only {
			shard, hash = only, 0
		}
		end = only + 1
	}
	now := s.clock.now()
	page := sluice.Page{Time: time.UnixMicro(now)}
	for ; shard < end; shard, hash = shard+1, 0 {
		if err := ctx.Err(); err != nil {
			return sluice.Page{}, err
		}
		for _, f := range s.listShard(shard, hash, &q, now) {
			if len(page.Buckets) == q.Max && f.hash != hash {
				page.Next = fmt.Sprintf("%d.%d", shard, f.hash)
				return page, nil
			}
			// Those of one hash are kept on one page, which is a little longer
			// for once.
			page.Buckets = append(page.Buckets, f.bucket)
			hash = f.hash
		}
	}
	return page, nil
}

// found is a bucket that matches a query.
type found struct {
	hash   int
	bucket sluice.Bucket
}

// listShard is what matches in a shard, of hashes from the given one, sorted.
func (s *Store) listShard(n, from int, q *sluice.Query, now int64) (all []found) {
	sh := s.lockShard(uint32(n))
	defer sh.mu.Unlock()
	for _, t := range sh.tables {
		for at := t.next(0); at > 0; at = t.next(at) {
			h := t.head(at)
			sc := s.scopes.get(h.scope())
			if sc.namespace != q.Namespace || q.Resource != "" && sc.resource != q.Resource ||
				q.Entity != "" && !t.isEntity(h, q.Entity) {
				continue
			}
			all = s.listRecord(all, t, at, sc, from, now)
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.hash, b.hash) })
	return all
}

// listRecord appends the buckets of a record that are not full.
func (s *Store) listRecord(all []found, t *table, at int, sc *scope, from int, now int64) []found {
	h := t.head(at)
	entity := t.entity(h)
	if len(entity) > sluice.MaxKeyPart {
		entity = "(overflow)"
	}
	for i := range sc.limits {
		spec, st := sc.limits[i].spec, t.read(at, i)
		v := spec.View(&st, now)
		hash := int(h.home()<<homeBits | s.hash(sc.limits[i].name)&(1<<homeBits-1))
		if hash < from || v.Idle() {
			continue
		}
		all = append(all, found{hash, sluice.Bucket{
			Key:       sc.key(entity, i),
			Limit:     spec.Limit,
			Remaining: sluice.Thousandths(v.Remaining()),
			Held:      sluice.Thousandths(v.Held),
			Consumed:  sluice.Thousandths(spec.ConsumedBy(&st, v)),
			Reset:     duration(spec.ResetIn(&st, v)),
			LastTaken: spec.LastTaken(&st),
			Tickets:   v.Tickets,
		}})
	}
	return all
}
