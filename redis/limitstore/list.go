package limitstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// A list is made by SCAN, which goes through all keys of all nodes, so that
// takes pay nothing for it. It is meant for people and for administration, not
// for every request. Only what an entity has of one resource is found by its key.
const (
	scanCount = 500 // keys looked at in one step
	scanSteps = 200 // steps of one page; if they do not suffice it is short, or even empty
)

// spot is where a list has got to: at a node and a cursor of SCAN there, after
// a certain bucket of what that step finds. A step's buckets are sorted, so
// that going on with it works even if some come and go in between.
type spot struct {
	Node   string
	Cursor uint64
	Record string
	Name   string
}

// List finds buckets that are not full.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if err := s.db.Ready(ctx); err != nil {
		return sluice.Page{}, err
	}
	if err := q.Normalize(); err != nil {
		return sluice.Page{}, err
	}
	at, err := parseSpot(q.Cursor)
	if err != nil {
		return sluice.Page{}, err
	}
	from := s.lists(at)
	page, err := s.list(ctx, from, &q, at)
	if err != nil && from != s.db.Client && at.Node == "" {
		page, err = s.list(ctx, s.db.Client, &q, at)
	}
	if err != nil {
		return sluice.Page{}, fmt.Errorf("redis: list: %w: %w", sluice.ErrUnavailable, err)
	}
	return page, nil
}

// onwards are the addresses of nodes in order, from that of at on. It moves at to
// the start of each that comes after.
func (at *spot) onwards(nodes map[string]rueidis.Client) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, addr := range slices.Sorted(maps.Keys(nodes)) {
			if addr < at.Node {
				continue
			}
			if addr != at.Node {
				*at = spot{Node: addr}
			}
			if !yield(addr) {
				return
			}
		}
	}
}

func (s *Store) list(ctx context.Context, from rueidis.Client, q *sluice.Query, at spot) (sluice.Page, error) {
	var page sluice.Page
	nodes, err := s.primaries(ctx, from)
	if err != nil {
		return page, err
	}
	steps := 0
	for addr := range at.onwards(nodes) {
		clock := nodes[addr]
		if !s.db.Cluster {
			clock = s.db.Client // also for what a replica has
		}
		now, err := s.timeOf(ctx, clock)
		if err != nil {
			return page, err
		}
		page.Time = time.UnixMicro(now)
		for done := false; !done; done = at.Cursor == 0 {
			if steps++; steps > scanSteps {
				page.Next = at.String()
				return page, nil
			}
			found, next, err := s.scan(ctx, from, nodes[addr], q, at, now)
			if err != nil {
				return page, err
			}
			for i := range found {
				if len(page.Buckets) == q.Max {
					page.Next = at.String()
					return page, nil
				}
				page.Buckets = append(page.Buckets, found[i].bucket)
				at.Record, at.Name = found[i].record, found[i].bucket.Key.Limit
			}
			at = spot{Node: addr, Cursor: next}
		}
	}
	return page, nil
}

// listed is a bucket and the key of its record.
type listed struct {
	record string
	bucket sluice.Bucket
}

// scan does one step, and answers the buckets in it that come after at.
func (s *Store) scan(ctx context.Context, from, node rueidis.Client, q *sluice.Query, at spot, now int64) ([]listed, uint64, error) {
	keys, next, err := s.keys(ctx, node, q, at.Cursor)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(keys)
	records := slices.Compact(keys)
	records = records[lowerBound(records, at.Record):]
	gets := make([]rueidis.Completed, len(records))
	for i, key := range records {
		gets[i] = s.db.Client.B().Get().Key(key).Build()
	}
	var found []listed
	for i, res := range from.DoMulti(ctx, gets...) {
		raw, err := res.ToString()
		if rueidis.IsRedisNil(err) {
			continue // expired in between
		}
		if err != nil {
			err = redis.Error(err)
		}
		var buckets []sluice.Bucket
		if err == nil {
			buckets, err = s.describe(records[i], raw, q, now)
		}
		if errors.Is(err, sluice.ErrRecord) {
			continue // whoever takes from it is told
		}
		if err != nil {
			return nil, 0, err
		}
		for _, b := range buckets {
			if records[i] > at.Record || b.Key.Limit > at.Name || at.Record == "" {
				found = append(found, listed{records[i], b})
			}
		}
	}
	return found, next, nil
}

// keys are those of the records on a node that may match, as many as one step
// finds, and where the next one begins.
func (s *Store) keys(ctx context.Context, node rueidis.Client, q *sluice.Query, cursor uint64) ([]string, uint64, error) {
	if q.Entity == "" || q.Resource == "" {
		entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern(q)).Count(scanCount).Build()).AsScanEntry()
		return entry.Elements, entry.Cursor, err
	}
	key := recordKey(&sluice.Key{Namespace: q.Namespace, Entity: q.Entity, Resource: q.Resource})
	there, err := node.Do(ctx, node.B().Exists().Key(key).Build()).AsBool()
	if err, ok := rueidis.IsRedisErr(err); ok {
		if _, moved := err.IsMoved(); moved {
			return nil, 0, nil // it belongs to another node
		}
	}
	if err != nil || !there {
		return nil, 0, err
	}
	return []string{key}, 0, nil
}

// lowerBound is where in sorted keys those from key on begin.
func lowerBound(sorted []string, key string) int {
	i, _ := slices.BinarySearch(sorted, key)
	return i
}

// describe is what people want to know of the buckets of a record, in order of
// their names.
func (s *Store) describe(record, raw string, q *sluice.Query, now int64) ([]sluice.Bucket, error) {
	key, ok := parseRecordKey(record)
	if !ok || key.Namespace != q.Namespace || q.Entity != "" && key.Entity != q.Entity || q.Resource != "" && key.Resource != q.Resource {
		return nil, nil
	}
	all, err := readRecord(raw)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.name, b.name) })
	var buckets []sluice.Bucket
	for i := range all {
		b := &all[i]
		c, err := s.limits.get(b.limit)
		if err != nil {
			return nil, err
		}
		v := c.spec.View(&b.state, now)
		if v.Idle() {
			continue
		}
		key.Limit = b.name
		buckets = append(buckets, sluice.Bucket{
			Key:       key,
			Limit:     b.limit,
			Remaining: sluice.Thousandths(v.Remaining()),
			Held:      sluice.Thousandths(v.Held),
			Consumed:  sluice.Thousandths(c.spec.ConsumedBy(&b.state, v)),
			Reset:     microseconds(c.spec.ResetIn(&b.state, v)),
			LastTaken: c.spec.LastTaken(&b.state),
			Tickets:   v.Tickets,
		})
	}
	return buckets, nil
}

// primaries are the nodes that have keys, by address.
func (s *Store) primaries(ctx context.Context, from rueidis.Client) (map[string]rueidis.Client, error) {
	nodes := from.Nodes()
	if !s.db.Cluster {
		return nodes, nil
	}
	for addr, node := range nodes {
		if !isPrimary(ctx, node) { // or away; another has or will have its keys
			delete(nodes, addr)
		}
	}
	return nodes, ctx.Err()
}

// isPrimary reports whether a node answers that it is a primary.
func isPrimary(ctx context.Context, node rueidis.Client) bool {
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	name, err := role[0].ToString()
	return err == nil && name == "master"
}

// timeOf is a node's time in microseconds, or what tests say.
func (s *Store) timeOf(ctx context.Context, node rueidis.Client) (int64, error) {
	if s.db.Config.Clock != nil {
		return s.db.Config.Clock().UnixMicro(), nil
	}
	parts, err := node.Do(ctx, node.B().Time().Build()).AsStrSlice()
	if err != nil || len(parts) != 2 {
		return 0, cmp.Or(err, errReply)
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return 0, err
	}
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	return seconds*1_000_000 + micros, err
}

// String makes a cursor of a spot.
func (at spot) String() string {
	b, err := json.Marshal([]any{at.Node, strconv.FormatUint(at.Cursor, 10), []byte(at.Record), []byte(at.Name)})
	if err != nil {
		panic(err) // strings always can
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseSpot(cursor string) (p spot, err error) {
	if cursor == "" {
		return p, nil
	}
	wrong := &sluice.FieldError{Field: "query.cursor", Value: cursor[:min(len(cursor), 60)], Reason: "must be the Next of an earlier page"}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return p, wrong
	}
	var number string
	var record, name []byte
	if err := json.Unmarshal(b, &[]any{&p.Node, &number, &record, &name}); err != nil {
		return p, wrong
	}
	p.Record, p.Name = string(record), string(name)
	if p.Cursor, err = strconv.ParseUint(number, 10, 64); err != nil {
		return p, wrong
	}
	return p, nil
}
