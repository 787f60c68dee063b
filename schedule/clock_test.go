package schedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// lateStore is asked for its time, and looks at its clock only after a while.
type lateStore struct{ Store }

func (lateStore) Now(context.Context) (time.Time, error) {
	time.Sleep(700 * time.Millisecond)
	now := time.Now()
	time.Sleep(100 * time.Millisecond)
	return now, nil
}

// TestTheClockIsNeverAhead of the store's, so that nothing starts before its time.
func TestTheClockIsNeverAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Scheduler{store: lateStore{}, clock: clock{}}
		if _, err := s.storeNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if behind := time.Since(s.clock.now()); behind != 100*time.Millisecond {
			t.Errorf("behind by %s, want what the answer took", behind)
		}
	})
}
