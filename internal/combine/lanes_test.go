package combine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/internal/combine"
)

var errBehind = errors.New("behind")

// item is answered with an error if it is negative.
type item struct {
	combine.Ticket
	n, answer int
}

// recorder sends items, a second each call, at most two calls and three items a
// call at a time.
type recorder struct {
	combine.Lanes[*item]
	mu   sync.Mutex
	sent [][]int
}

// check compares what was sent. Calls may begin in any order at the same time.
func (r *recorder) check(t *testing.T, want ...[]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.sent, slices.Compare)
	if !slices.EqualFunc(r.sent, want, slices.Equal) {
		t.Errorf("sent %v, want %v", r.sent, want)
	}
}

func start(patience time.Duration) *recorder {
	r := &recorder{}
	r.Start(&combine.Rules[*item]{
		Alone: func(_ context.Context, i *item) error { return r.send([]*item{i})[0] },
		Send: func(batch []*item) {
			for i, err := range r.send(batch) {
				batch[i].Answer(err)
			}
		},
		Ready:    func(calls, _, waiting int) bool { return calls < 2 && waiting >= 2 },
		Size:     func(waiting []*item) int { return min(len(waiting), 3) },
		Patience: patience, Behind: errBehind,
	})
	return r
}

func (r *recorder) send(batch []*item) (errs []error) {
	var numbers []int
	for _, i := range batch {
		numbers = append(numbers, i.n)
	}
	r.mu.Lock()
	r.sent = append(r.sent, numbers)
	r.mu.Unlock()
	time.Sleep(time.Second)
	for _, i := range batch {
		var err error
		if i.answer = 10 * i.n; i.n < 0 {
			err = errors.New("negative")
		}
		errs = append(errs, err)
	}
	return errs
}

func TestWhatComesMeanwhileGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(0)
		for n := range 8 {
			go func() {
				i := &item{n: n}
				if lost, err := r.Do(t.Context(), "lane", i); lost || err != nil || i.answer != 10*n {
					t.Errorf("%d: %d, %v, %v", n, i.answer, lost, err)
				}
			}()
			synctest.Wait() // so that they come in order
		}
		time.Sleep(time.Minute)
		r.check(t, []int{0}, []int{1, 2}, []int{3, 4, 5}, []int{6, 7})
	})
}

func TestLanesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(0)
		for n, lane := range []string{"a", "b", "a"} {
			go r.Do(t.Context(), lane, &item{n: n}) //nolint:errcheck // only what is sent matters
			synctest.Wait()
		}
		r.check(t, []int{0}, []int{1})
		time.Sleep(time.Minute)
	})
}

func TestEachGetsItsOwnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(0)
		for _, n := range []int{-1, 2, -3, 4} {
			go func() {
				if _, err := r.Do(t.Context(), "", &item{n: n}); (err != nil) != (n < 0) {
					t.Errorf("%d: %v", n, err)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
	})
}

func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(0)
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		go r.Do(t.Context(), "", &item{n: 1}) //nolint:errcheck // it is under way, and no more
		synctest.Wait()
		check := func(ctx context.Context, n int, wantLost bool, wantErr error) {
			go func() {
				if lost, err := r.Do(ctx, "", &item{n: n}); lost != wantLost || !errors.Is(err, wantErr) {
					t.Errorf("%d: %v, %v", n, lost, err)
				}
			}()
			synctest.Wait()
		}
		check(short, 2, true, context.DeadlineExceeded)
		check(t.Context(), 3, false, nil)
		check(short, 4, false, context.DeadlineExceeded) // still waits then
		time.Sleep(time.Minute)
		r.check(t, []int{1}, []int{2, 3})
	})
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(time.Second / 2)
		go r.Do(t.Context(), "", &item{n: 1}) //nolint:errcheck // it is under way, and no more
		synctest.Wait()
		if _, err := r.Do(t.Context(), "", &item{n: 2}); !errors.Is(err, errBehind) {
			t.Error(err)
		}
		i := &item{n: 3}
		if _, err := r.Do(t.Context(), "", i); err != nil || i.answer != 30 {
			t.Errorf("%d, %v", i.answer, err)
		}
	})
}
