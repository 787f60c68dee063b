// Package catalogtest is what every store of the catalog must pass.
//
// Whoever adds a store writes one test:
//
//	func TestCatalog(t *testing.T) {
//		catalogtest.Run(t, func(tb testing.TB) catalog.Store { … })
//	}
//
// and one that kills a process in the middle of writing, see [Crash]. The
// checks of the store come first, those of the rules that package catalog
// keeps above it follow.
package catalogtest
