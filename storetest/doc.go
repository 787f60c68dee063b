// Package storetest is what every store must pass: a conformance suite, the
// reference model that it compares with, and a checker of histories.
//
// Whoever adds a store writes one test:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
//			store, err := mystore.Open(mystore.Config{Clock: now})
//			if err != nil {
//				tb.Fatal(err)
//			}
//			tb.Cleanup(func() { store.Close() })
//			return store
//		})
//	}
//
// The store's time must be the suite's, which goes forward, stands still and
// goes back. A store behind a network does with fewer random steps:
//
//	storetest.Config{Steps: 4000}.Run(t, open)
//
// What a store cannot do, by its [sluice.Capabilities], is left out and named
// in the log. The checks are of five kinds:
//
//   - tables of steps, whose answers were worked out by hand;
//   - the contract beside the numbers: who owns which memory, which bytes a
//     key may have, what an error leaves behind;
//   - traps that libraries in use have fallen into;
//   - random operations of all kinds, compared with the [Model] after each
//     one, to the last thousandth of a token and microsecond. A failure names
//     its seed, which as [Config.Seed] does the same again;
//   - crowds of callers at once, whose histories are checked.
//
// A [History] can also be recorded elsewhere, say by several processes, and
// checked for the bound in every interval.
package storetest
