package failover_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/failover"
)

func TestAFailureStartsTestingAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		time.Sleep(4 * time.Second) // of health checks
		succeed(t, l, 5)
		f.set(cuts)
		decide(t, l, "", critical("a"))
		f.set(none)
		time.Sleep(10*time.Second - time.Nanosecond)
		succeed(t, l, 100)
		wantState(t, s, failover.Testing)
		time.Sleep(time.Nanosecond)
		succeed(t, l, 1)
		wantState(t, s, failover.Partial)
	})
}

func TestRecoveryNeedsARateOfSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		for range 10 { // failures, but never three in a row
			f.set(cuts)
			decide(t, l, "", critical("a"))
			f.set(none)
			succeed(t, l, 1)
		}
		time.Sleep(10 * time.Second)
		succeed(t, l, 4)
		wantState(t, s, failover.Partial)
		time.Sleep(20 * time.Second)
		succeed(t, l, 10)
		wantState(t, s, failover.Stabilizing)
		time.Sleep(30 * time.Second)
		// So far 24 of 34 calls succeeded; 190 of 200 are 95 %.
		succeed(t, l, 165)
		wantState(t, s, failover.Stabilizing)
		succeed(t, l, 1)
		wantState(t, s, failover.Normal)
	})
}

// In a phase a failure among many successes changes nothing, and one among few
// steps back.
func TestAFailureAmongManySuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		fail := func() {
			f.set(cuts)
			decide(t, l, "", critical("a"))
			f.set(none)
		}
		succeed(t, l, 5)
		time.Sleep(10 * time.Second)
		succeed(t, l, 1)
		wantState(t, s, failover.Partial)
		succeed(t, l, 19)
		fail()
		wantState(t, s, failover.Partial)
		succeed(t, l, 19-1)
		fail()
		wantState(t, s, failover.Testing)
	})
}
