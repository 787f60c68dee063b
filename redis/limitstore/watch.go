package limitstore

import (
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// Watch calls wake with the keys of buckets that got more room, which the script
// publishes. It listens on a connection of its own, and
// again after one is lost. What was said before the server has confirmed the
// subscription is missed, so everybody who waits then looks again.
func (s *Store) Watch(wake func(sluice.Key)) {
	s.db.Go(func() {
		pauses := backoff.Pauses{First: 30 * time.Millisecond, Max: 2 * time.Second}
		for attempt := 1; s.db.Life().Err() == nil; attempt++ {
			started := time.Now()
			s.listen(wake)
			if time.Since(started) > time.Minute {
				attempt = 1
			}
			pauses.Wait(s.db.Life(), attempt)
		}
	})
}

// listen hears until the connection is lost or the store closed.
func (s *Store) listen(wake func(sluice.Key)) {
	client, release := s.db.Client.Dedicate()
	defer release()
	gone := client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if k, ok := parseRoom(m.Message); ok {
				wake(k)
			}
		},
		OnSubscription: func(sub rueidis.PubSubSubscription) {
			if sub.Kind == "subscribe" {
				wake(sluice.AnyKey)
			}
		},
	})
	if client.Do(s.db.Life(), client.B().Subscribe().Channel(channel).Build()).Error() != nil {
		return
	}
	select {
	case <-gone:
	case <-s.db.Life().Done():
	}
}

// parseRoom reads a message: the key of a record and the limit's name.
func parseRoom(message string) (sluice.Key, bool) {
	record, name, ok := strings.Cut(message, "\x00")
	if !ok {
		return sluice.Key{}, false
	}
	k, ok := parseRecordKey(record)
	k.Limit = strings.Clone(name)
	return k, ok
}
