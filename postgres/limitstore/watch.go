package limitstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
)

// Room that a refund, a release, a reset, a returned hold or a ticket that was
// removed makes is told to other processes by NOTIFY. The notification is a
// transaction of its own, a moment after the one that made the room: PostgreSQL
// lets only one notifying transaction commit at a time, in the whole cluster,
// which must not become the limit of how fast leases can be released.
//
// Whoever waits hears of it through a connection that listens. Where there is
// none, and for the case that a notification is lost, it asks again when it
// renews its ticket.

const (
	// noticeSize bounds one notification; PostgreSQL allows 8000 bytes.
	noticeSize = 7000

	// maxRoomy bounds the buckets that are told of in one go.
	maxRoomy = 10_000
)

// watch is what the store knows about room and who wants to hear of it.
type watch struct {
	mu      sync.Mutex
	roomy   map[sluice.Key]struct{} // to be told to others
	tell    chan struct{}           // holds one when there is something to tell
	wakes   []func(sluice.Key)      // of those who watch
	hearing bool                    // the listening connection is up
}

func (w *watch) init() {
	w.roomy = map[sluice.Key]struct{}{}
	w.tell = make(chan struct{}, 1)
}

// made notes that a bucket has more room.
func (w *watch) made(k sluice.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.roomy) < maxRoomy {
		w.roomy[k] = struct{}{}
	}
	select {
	case w.tell <- struct{}{}:
	default:
	}
}

// wake tells those who watch.
func (w *watch) wake(k sluice.Key) {
	w.mu.Lock()
	wakes := w.wakes
	w.mu.Unlock()
	for _, wake := range wakes {
		wake(k)
	}
}

// hear notes whether notifications are heard. When they begin to be, anything
// may have been missed.
func (w *watch) hear(hearing bool) {
	w.mu.Lock()
	w.hearing = hearing
	w.mu.Unlock()
	if hearing {
		w.wake(sluice.AnyKey)
	}
}

// Watch calls wake with the keys of buckets that got more room, until the store
// is closed. Through a pooler nothing can be heard; see [postgres.Config].
func (s *Store) Watch(wake func(sluice.Key)) {
	s.watch.mu.Lock()
	s.watch.wakes = append(s.watch.wakes, wake)
	first, hearing := len(s.watch.wakes) == 1, s.watch.hearing
	s.watch.mu.Unlock()
	if hearing {
		wake(sluice.AnyKey)
	}
	if first && s.db.CanListen() {
		s.db.Follow(s.channel(), s.watch.hear, s.heard)
	}
}

// channel is where notifications go: each schema has its own.
func (s *Store) channel() string { return s.db.Config.Schema + "_room" }

func (s *Store) heard(payload string) {
	var keys [][4]string
	if err := json.Unmarshal([]byte(payload), &keys); err != nil {
		s.db.Config.Log.Warn("postgres store: strange notification", "channel", s.channel(), "error", err)
		return
	}
	for _, k := range keys {
		rk := rowKey{k[0], k[1], k[2], k[3]}
		s.marks.setTight(s.marks.hash(&rk), false)
		s.watch.wake(rk.key())
	}
}

// notifyOthers sends notifications of room, as many at a time as have come
// together while the ones before were being sent.
func (s *Store) notifyOthers() {
	for {
		select {
		case <-s.db.Life().Done():
			return
		case <-s.watch.tell:
		}
		s.watch.mu.Lock()
		roomy := s.watch.roomy
		s.watch.roomy = map[sluice.Key]struct{}{}
		s.watch.mu.Unlock()
		err := s.call(s.db.Life(), nil, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT pg_notify($1, n) FROM unnest($2::text[]) n", s.channel(), notices(roomy))
			return err
		})
		if err != nil && s.db.Life().Err() == nil {
			s.db.Config.Log.Warn("postgres store: others could not be notified of room; they ask again by themselves", "error", err)
		}
	}
}

// notices writes keys as notifications.
func notices(keys map[sluice.Key]struct{}) []string {
	var all []string
	var part [][4]string
	size := 0
	flush := func() {
		if len(part) > 0 {
			b, err := json.Marshal(part)
			if err != nil {
				panic(fmt.Sprintf("strings are always valid JSON: %v", err))
			}
			all = append(all, string(b))
			part, size = nil, 0
		}
	}
	for k := range keys {
		rk := rowKeyOf(&k)
		n := [4]string{rk.namespace, rk.entity, rk.resource, rk.limit}
		// Worst case: JSON writes some characters as six bytes.
		cost := 6*(len(n[0])+len(n[1])+len(n[2])+len(n[3])) + 16
		if size+cost > noticeSize {
			flush()
		}
		part, size = append(part, n), size+cost
	}
	flush()
	return all
}
