package lag

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		var primary, replica int64
		there := true
		measure := func(wait time.Duration) (time.Duration, bool) {
			m.Measure(func() (int64, bool) { return primary, there }, func() (int64, bool) { return replica, there })
			time.Sleep(wait)
			return m.Lag()
		}
		if _, known := m.Lag(); known || m.Near(time.Hour) {
			t.Error("a lag is known before it was measured")
		}
		if lag, known := measure(time.Second); !known || lag != time.Second {
			t.Errorf("%s, %t: all was there a second ago", lag, known)
		}
		primary = 100 // and the replica gets nothing
		for want := 2 * time.Second; want <= 10*time.Second; want += time.Second {
			if lag, known := measure(time.Second); !known || lag != want {
				t.Errorf("%s, %t, want %s", lag, known, want)
			}
		}
		if m.Near(9*time.Second) || !m.Near(10*time.Second) {
			t.Error("10 s are not within 10 s, or within 9")
		}
		if _, known := measure(time.Second); known {
			t.Error("a lag of 11 s is known")
		}
		replica = 100
		if lag, known := measure(0); !known || lag != 0 {
			t.Errorf("%s, %t after it has caught up", lag, known)
		}
		there = false
		if lag, known := measure(3 * time.Second); !known || lag != 3*time.Second {
			t.Errorf("%s, %t while nothing is heard", lag, known)
		}
		if read, skipped := m.Counts(); read != 1 || skipped != 2 {
			t.Errorf("%d read, %d skipped", read, skipped)
		}
	})
}
