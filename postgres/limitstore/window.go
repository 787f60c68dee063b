package limitstore

import (
	"errors"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
)

// PostgreSQL has time zones of its own, but its data may be older or newer
// than Go's, and then two stores would disagree about a day. So a call brings
// along the calendar windows around the time that this process takes it to be
// in the database, and the database picks the one that its time is in. If it
// is in none, nothing is done, and the call is made again with the windows
// around the time that the database has answered.

// maxTries is how often that is done.
const maxTries = 3

// windowNumbers is how many numbers the database gets for each limit: the
// start and the end of four windows.
const windowNumbers = 8

// windows are those before, at and after now, and the one at hint.
func windows(spec *bucket.Spec, now, hint int64) (w [windowNumbers]int64) {
	start, end := spec.Window(now)
	w[2], w[3] = start, end
	w[0], w[1] = spec.Window(start - 1)
	w[4], w[5] = spec.Window(end)
	w[6], w[7] = spec.Window(hint)
	return w
}

// bound fills in the windows of limits that follow the calendar.
func (s *Store) bound(a *limitArgs, hint int64) error {
	a.bounds = a.bounds[:0]
	for i := range a.limits {
		if a.limits[i].Calendar == sluice.NoCalendar {
			continue
		}
		if len(a.bounds) == 0 {
			a.bounds = append(a.bounds, make([]int64, windowNumbers*len(a.limits))...)
		}
		spec, err := s.specs.compile(&a.limits[i])
		if err != nil {
			return err
		}
		now := s.reckon()
		if hint == 0 {
			hint = now
		}
		w := windows(spec, now, hint)
		copy(a.bounds[windowNumbers*i:], w[:])
	}
	return nil
}

var errDrift = errors.New("the clocks of the database and of this process drift apart too fast to agree on a calendar window")

// withWindows makes a call with the windows of its limits. The call answers
// whether they were the wrong ones, and at what time.
func (s *Store) withWindows(a *limitArgs, call func() (isLost bool, at int64, err error)) error {
	hint := int64(0)
	for range maxTries {
		if err := s.bound(a, hint); err != nil {
			return err
		}
		isLost, at, err := call()
		if err != nil || !isLost {
			return err
		}
		hint = at
	}
	return postgres.UnavailableError(errDrift)
}
