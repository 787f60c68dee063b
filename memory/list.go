package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// List looks through all buckets for those that match; it is meant for people
// and for administration, not for every request.
//
// Within a shard it goes from the last entry to the first. Forgetting a
// bucket moves the last one to its place, so one that moves is seen twice at
// worst, and none is missed.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if err := s.ready(ctx); err != nil {
		return sluice.Page{}, err
	}
	if err := q.Normalize(); err != nil {
		return sluice.Page{}, err
	}
	from, before := 0, -1
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "%d.%d", &from, &before); err != nil || from < 0 || from >= shardCount || before < 0 {
			return sluice.Page{}, &sluice.FieldError{Field: "query.cursor", Value: q.Cursor, Reason: "must be the Next of an earlier page"}
		}
	}
	now := s.clock.now()
	page := sluice.Page{Time: time.UnixMicro(now)}
	for n := from; n < shardCount; n++ {
		if err := ctx.Err(); err != nil {
			return sluice.Page{}, err
		}
		if at := s.listShard(n, before, &q, now, &page); at >= 0 {
			page.Next = fmt.Sprintf("%d.%d", n, at)
			return page, nil
		}
		before = -1
	}
	return page, nil
}

// listShard adds what matches among the entries numbered below before (-1:
// all). It answers where to go on if the page is full, else -1.
func (s *Store) listShard(n, before int, q *sluice.Query, now int64, page *sluice.Page) int {
	sh := &s.shards[n]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if before < 0 || before > len(sh.entries) {
		before = len(sh.entries)
	}
	for i := before - 1; i >= 0; i-- {
		e := &sh.entries[i]
		sc := s.scopes.get(e.scope)
		if sc.namespace != q.Namespace || q.Resource != "" && sc.resource != q.Resource ||
			q.Entity != "" && string(sh.entity(e)) != q.Entity {
			continue
		}
		st := sh.state(i)
		v := sc.spec.View(&st, now)
		if v.Idle() {
			continue
		}
		if len(page.Buckets) == q.Max {
			return i + 1
		}
		entity := string(sh.entity(e))
		if len(entity) > sluice.MaxKeyPart {
			entity = "(overflow)"
		}
		consumed := st.Consumed + sc.spec.Lapsed(&st, v)
		page.Buckets = append(page.Buckets, sluice.Bucket{
			Key:       sc.key(entity),
			Limit:     sc.limit,
			Remaining: sluice.Tokens(v.Available()),
			Held:      sluice.Tokens(v.Held),
			Consumed:  sluice.Tokens(consumed),
			Reset:     duration(sc.spec.ResetIn(&st, v)),
			LastTaken: time.UnixMicro(sc.spec.LastTaken(&st)),
		})
	}
	return -1
}
