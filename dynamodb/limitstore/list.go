package limitstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
)

// List finds buckets: of an entity by its key, of a resource by an index, which may
// be a moment behind, and of a whole namespace by reading the table.
func (s *Store) List(ctx context.Context, q sluice.Query) (page sluice.Page, err error) {
	if err := s.db.Ready(ctx); err != nil {
		return page, err
	}
	if err := q.Normalize(); err != nil {
		return page, err
	}
	at, err := parseCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	now := s.now()
	page.Time = time.UnixMicro(now)
	for {
		found, err := s.look(ctx, &q, at.Before)
		if err != nil {
			return sluice.Page{}, err
		}
		for _, f := range found.items {
			sub, ok := parseSubject(dynamodb.KeyOf(f.item))
			if !ok {
				continue
			}
			it := readItem(sub, f.item)
			after := ""
			if f.at.same(at.In) {
				after = at.After
			}
			for _, b := range it.list(now, after) {
				if len(page.Buckets) == q.Max {
					at.In = f.at
					page.Next = at.String()
					return page, nil
				}
				page.Buckets = append(page.Buckets, b)
				if f.at.same(at.In) {
					at.After = "\x00" + b.Key.Limit
				} else {
					at.In, at.After = f.at, "\x00"+b.Key.Limit
				}
			}
			at = cursor{Before: f.at}
		}
		if at = (cursor{Before: found.next}); found.next == nil {
			return page, nil
		}
	}
}

// cursor is where a list goes on.
type cursor struct {
	Before position `json:"b,omitempty"` // the item before, nil for none
	In     position `json:"i,omitempty"` // the item that the page before ended in,
	After  string   `json:"a,omitempty"` // and after which limit
}

// position is the key of an item in the table, or in the index that is read.
type position map[string]string

func (p position) same(o position) bool {
	return p != nil && o != nil && p[dynamodb.PK] == o[dynamodb.PK] && p[dynamodb.SK] == o[dynamodb.SK]
}

func (p position) item() dynamodb.Item {
	if p == nil {
		return nil
	}
	item := dynamodb.Item{}
	for name, value := range p {
		item[name] = dynamodb.S(value)
	}
	return item
}

func positionOf(key dynamodb.Item) position {
	if len(key) == 0 {
		return nil
	}
	p := position{}
	for name, value := range key {
		p[name] = dynamodb.Text(value)
	}
	return p
}

// String writes a cursor. The name of a limit may have any bytes.
func (c cursor) String() string {
	c.After = base64.RawURLEncoding.EncodeToString([]byte(c.After))
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // it is made of strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(text string) (c cursor, err error) {
	if text == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	after, err2 := base64.RawURLEncoding.DecodeString(c.After)
	if errors.Join(err, err2) != nil {
		return c, &sluice.FieldError{Field: "query.cursor", Value: text, Reason: "must be the Next of an earlier page"}
	}
	c.After = string(after)
	return c, nil
}

// list returns the buckets that are not full, after a limit, in order of their names.
// The limit has a byte before it, so that the empty name comes after none.
func (it *item) list(now int64, after string) (all []sluice.Bucket) {
	for _, name := range it.names() {
		r := it.records[name]
		if "\x00"+name <= after || r.spec == nil || r.damaged != nil {
			continue
		}
		v := r.spec.View(&r.state, now)
		if v.Idle() {
			continue
		}
		all = append(all, sluice.Bucket{
			Key:       it.limit(name),
			Limit:     r.spec.Limit,
			Remaining: sluice.Thousandths(v.Remaining()),
			Held:      sluice.Thousandths(v.Held),
			Consumed:  sluice.Thousandths(r.spec.ConsumedBy(&r.state, v)),
			Reset:     duration(r.spec.ResetIn(&r.state, v)),
			LastTaken: r.spec.LastTaken(&r.state),
			Tickets:   v.Tickets,
		})
	}
	return all
}

// found is what one request has found.
type found struct {
	items []foundItem
	next  position // where to go on, nil if that was all
}

type foundItem struct {
	at   position
	item dynamodb.Item
}

// perRequest is how many items are looked at in one request at most.
const perRequest = 100

// look reads the next items that may have what is asked for.
func (s *Store) look(ctx context.Context, q *sluice.Query, after position) (f found, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*s.db.Config.Timeout)
	defer cancel()
	sub := subject{q.Namespace, q.Entity, q.Resource}
	switch {
	case q.Entity != "":
		condition, sk := "PK = :pk AND begins_with(SK, :sk)", bucketPrefix
		if q.Resource != "" {
			condition, sk = "PK = :pk AND SK = :sk", sub.key().SK
		}
		err = s.query(ctx, &sdk.QueryInput{ConsistentRead: aws.Bool(true),
			KeyConditionExpression:    &condition,
			ExpressionAttributeValues: dynamodb.Item{":pk": dynamodb.S(sub.key().PK), ":sk": dynamodb.S(sk)},
		}, after, &f, false)
	case q.Resource != "":
		err = s.query(ctx, &sdk.QueryInput{IndexName: aws.String(dynamodb.GSI2),
			KeyConditionExpression: aws.String("GSI2PK = :pk AND begins_with(GSI2SK, :sk)"),
			ExpressionAttributeValues: dynamodb.Item{
				":pk": dynamodb.S(dynamodb.Scope(q.Namespace) + resourcePrefix + dynamodb.Escape(q.Resource)), ":sk": dynamodb.S(indexPrefix)},
		}, after, &f, true)
	default:
		err = s.scan(ctx, dynamodb.Scope(q.Namespace)+entityPrefix, after, &f)
	}
	return f, err
}

// query reads by a key. Indexes have keys only, so that the items are read after.
func (s *Store) query(ctx context.Context, request *sdk.QueryInput, after position, f *found, index bool) error {
	request.TableName, request.ExclusiveStartKey, request.Limit = s.db.Table, after.item(), aws.Int32(perRequest)
	err := s.db.Read(ctx, func(ctx context.Context) error {
		out, err := s.db.Client.Query(ctx, request)
		if err != nil {
			return err
		}
		f.next = positionOf(out.LastEvaluatedKey)
		f.items = f.items[:0]
		for _, item := range out.Items {
			at := position{dynamodb.PK: dynamodb.Text(item[dynamodb.PK]), dynamodb.SK: dynamodb.Text(item[dynamodb.SK])}
			if index {
				at[dynamodb.GSI2PK], at[dynamodb.GSI2SK] = dynamodb.Text(item[dynamodb.GSI2PK]), dynamodb.Text(item[dynamodb.GSI2SK])
			}
			f.items = append(f.items, foundItem{at, item})
		}
		return nil
	})
	if err != nil || !index || len(f.items) == 0 {
		return err
	}
	of, keys := map[dynamodb.Key]int{}, []dynamodb.Key{}
	for i := range f.items {
		k := dynamodb.KeyOf(f.items[i].item)
		of[k] = i
		keys = append(keys, k)
	}
	return s.readMany(ctx, keys, func(item dynamodb.Item) { f.items[of[dynamodb.KeyOf(item)]].item = item })
}

// scan reads the table, and finds the items whose partition begins with a prefix.
func (s *Store) scan(ctx context.Context, prefix string, after position, f *found) error {
	request := &sdk.ScanInput{TableName: s.db.Table, ExclusiveStartKey: after.item(), ConsistentRead: aws.Bool(true),
		FilterExpression:          aws.String("begins_with(PK, :pk)"),
		ExpressionAttributeValues: dynamodb.Item{":pk": dynamodb.S(prefix)}}
	return s.db.Read(ctx, func(ctx context.Context) error {
		out, err := s.db.Client.Scan(ctx, request)
		if err != nil {
			return err
		}
		f.next = positionOf(out.LastEvaluatedKey)
		f.items = f.items[:0]
		for _, item := range out.Items {
			at := position{dynamodb.PK: dynamodb.Text(item[dynamodb.PK]), dynamodb.SK: dynamodb.Text(item[dynamodb.SK])}
			f.items = append(f.items, foundItem{at, item})
		}
		return nil
	})
}
