package sluice_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

// TestWhoGivesUpIsToldThatItsTwinWasServed: of two callers that wait with one id,
// on two nodes, one is charged. The other, whose time is over before it asks again,
// gets the same answer.
func TestWhoGivesUpIsToldThatItsTwinWasServed(t *testing.T) {
	for name, lease := range map[string]bool{"take": false, "lease": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := openStore(t)
				a, b := sluice.New(store), sluice.New(store)
				all := demand("api", "2/s burst 2", 2)
				mustTake(t, a, all)
				take := sluice.Take{Demands: []sluice.Demand{all}, ID: "once", Lease: lease}
				first := patient(t, a, take, sluice.Normal, 5*time.Second)
				time.Sleep(50 * time.Millisecond)
				second := patient(t, b, take, sluice.Normal, 1500*time.Millisecond)
				if r := <-first; r.err != nil || r.d.Repeated {
					t.Fatalf("%+v, %v", r.d, r.err)
				}
				if r := <-second; r.err != nil || !r.d.Allowed || !r.d.Repeated {
					t.Errorf("%+v, %v; want what the other was told", r.d, r.err)
				}
			})
		})
	}
}
