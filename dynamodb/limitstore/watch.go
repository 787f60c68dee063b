package limitstore

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/internal/backoff"
)

// DynamoDB tells nobody of changes in time, so a node that makes room in a bucket that
// others wait for writes so into an item of its own, which the others read twice a
// second. Whoever waits has a ticket in the bucket; where there is none, nothing is
// written.
const (
	roomPK        = "SYSTEM#ROOM"
	roomAttribute = "room"

	lookEvery = 500 * time.Millisecond
	tellEvery = 200 * time.Millisecond
	maxRooms  = 100 // that an item has; who misses some is told that there were any
	keepRooms = time.Hour
)

// rooms is what this node tells others, and whom it tells of what it hears.
type rooms struct {
	node string

	mu     sync.Mutex
	wakes  []func(sluice.Key)
	told   []room
	number int64         // of the last
	more   chan struct{} // has one if there is something to tell
}

// room is a bucket in which room was made.
type room struct {
	number int64
	key    sluice.Key
}

func (r *rooms) start() { r.node, r.more = rand.Text(), make(chan struct{}, 1) }

// Watch calls wake with the keys of buckets that got more room, at once if this process
// has made it and within a second if another has.
func (s *Store) Watch(wake func(sluice.Key)) {
	s.rooms.mu.Lock()
	first := len(s.rooms.wakes) == 0
	s.rooms.wakes = append(s.rooms.wakes[:len(s.rooms.wakes):len(s.rooms.wakes)], wake)
	s.rooms.mu.Unlock()
	if first {
		s.db.Go(s.listen)
	} else {
		wake(sluice.AnyKey)
	}
}

func (r *rooms) wake(keys ...sluice.Key) {
	r.mu.Lock()
	wakes := r.wakes
	r.mu.Unlock()
	for _, wake := range wakes {
		for _, k := range keys {
			wake(k)
		}
	}
}

// made tells of the room that a change has made.
func (s *Store) made(c *change) {
	if len(c.room) == 0 {
		return
	}
	s.rooms.wake(c.room...)
	r := &s.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range c.room {
		if it := c.item(&k); it.records[k.Limit] == nil || !it.records[k.Limit].waits() {
			continue
		}
		r.number++
		r.told = append(r.told, room{r.number, k})
		r.told = r.told[max(0, len(r.told)-maxRooms):]
		select {
		case r.more <- struct{}{}:
		default:
		}
	}
}

// waits reports whether somebody waits for the bucket.
func (r *record) waits() bool { return r.state.Ext != nil && len(r.state.Ext.Tickets) > 0 }

// tell writes what there is to tell, until the store is closed.
func (s *Store) tell() {
	for {
		select {
		case <-s.rooms.more:
		case <-s.db.Life().Done():
			return
		}
		s.rooms.mu.Lock()
		item := s.rooms.item(s.now())
		s.rooms.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.db.Life(), s.db.Config.Timeout)
		err := s.db.Write(ctx, func(ctx context.Context) error {
			_, err := s.db.Client.PutItem(ctx, &sdk.PutItemInput{TableName: s.db.Table, Item: item})
			return err
		})
		cancel()
		if err != nil && s.db.Life().Err() == nil {
			s.db.Config.Log.Debug("dynamodb: other nodes were not told of room", "error", err) // waiting callers ask by themselves
		}
		if !backoff.Sleep(s.db.Life(), tellEvery) {
			return
		}
	}
}

func (r *rooms) item(now int64) dynamodb.Item {
	w := &writer{}
	w.number(binaryVersion)
	w.unsigned(uint64(len(r.told)))
	for _, t := range r.told {
		w.number(t.number)
		w.text(t.key.Namespace)
		w.text(t.key.Entity)
		w.text(t.key.Resource)
		w.text(t.key.Limit)
	}
	item := dynamodb.Key{PK: roomPK, SK: r.node}.Item()
	item[roomAttribute] = &types.AttributeValueMemberB{Value: w.b}
	item[dynamodb.TTL] = dynamodb.N(time.UnixMicro(now).Add(keepRooms).Unix())
	return item
}

func readRooms(item dynamodb.Item) (all []room) {
	b, ok := item[roomAttribute].(*types.AttributeValueMemberB)
	if !ok {
		return nil
	}
	in := &reader{b: b.Value}
	if in.number() > binaryVersion {
		return nil
	}
	for range in.count() {
		all = append(all, room{in.number(), sluice.Key{Namespace: in.text(), Entity: in.text(), Resource: in.text(), Limit: in.text()}})
	}
	if in.err != nil {
		return nil
	}
	return all
}

// listen reads what other nodes tell until the store is closed. Whenever it may have
// missed something it wakes everybody.
func (s *Store) listen() {
	heard := map[string]int64{} // the last number of each node
	missed := true
	for s.db.Life().Err() == nil {
		keys, err := s.hear(heard)
		switch {
		case err != nil:
			missed = true
		case missed:
			missed = false
			s.rooms.wake(sluice.AnyKey)
		default:
			s.rooms.wake(keys...)
		}
		backoff.Sleep(s.db.Life(), backoff.Jitter(lookEvery))
	}
}

// hear returns the keys that other nodes have told of since.
func (s *Store) hear(heard map[string]int64) (keys []sluice.Key, err error) {
	ctx, cancel := context.WithTimeout(s.db.Life(), s.db.Config.Timeout)
	defer cancel()
	request := &sdk.QueryInput{TableName: s.db.Table, KeyConditionExpression: aws.String("PK = :pk"),
		ExpressionAttributeValues: dynamodb.Item{":pk": dynamodb.S(roomPK)}}
	var out *sdk.QueryOutput
	err = s.db.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.db.Client.Query(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, item := range out.Items {
		node, all := dynamodb.KeyOf(item).SK, readRooms(item)
		if len(all) == 0 || node == s.rooms.node {
			continue
		}
		last, known := heard[node]
		if all[0].number > last+1 && known {
			keys = append(keys, sluice.AnyKey)
		}
		for _, r := range all {
			if r.number > last {
				keys = append(keys, r.key)
			}
		}
		heard[node] = all[len(all)-1].number
	}
	return keys, nil
}
