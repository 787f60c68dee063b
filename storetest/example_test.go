package storetest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// A store's own tests call Run. Checks can also be run one by one, and then
// say as an error what they found.
func ExampleConfig_Checks() {
	open := func(_ testing.TB, now func() time.Time) sluice.Store {
		return storetest.NewModel(now) // here stands the store to check
	}
	check := func(tb testing.TB) {
		for _, c := range (storetest.Config{Steps: 1000}).Checks() {
			if err := c.Run(tb, open); err != nil {
				tb.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	_ = check // from a test
}

// Events of all callers of one bucket show whether more passed than may.
func ExampleHistory_Check() {
	var h storetest.History
	h.Add(0, 40, 20*sluice.Token)               // called at 0, answered 40 µs later
	h.Add(1_000_000, 1_000_050, 5*sluice.Token) // a second later
	h.Add(1_000_010, 1_000_100, 6*sluice.Token)

	err := h.Check(sluice.MustParse("10/s burst 20"))
	fmt.Println(err)

	var over *storetest.BoundError
	if errors.As(err, &over) {
		fmt.Println("too many:", sluice.Thousandths(over.Interval.Net-over.Interval.Bound))
	}
	// Output:
	// over the bound: 31 from 0 to 1000100 (1.0001s), where 30.001 may pass
	// too many: 0.999
}

// A report says how much of what may pass did pass.
func ExampleHistory_Report() {
	var h storetest.History
	h.Add(0, 0, 20*sluice.Token)
	h.Add(2_000_000, 2_000_000, 18*sluice.Token)

	r, err := h.Report(sluice.MustParse("10/s burst 20"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s of %s: %.0f %%\n", sluice.Thousandths(r.Whole.Net), sluice.Thousandths(r.Whole.Bound), 100*r.Used())
	// Output: 38 of 40: 95 %
}
