package contest

import (
	"errors"
	"sync"

	"github.com/sluice-go/sluice/bench/keys"
)

// Load asks once for each key, by as many callers at once as given.
func (c *Contender) Load(all keys.Sequence, callers int) error {
	errs := make([]error, callers)
	var done sync.WaitGroup
	for n := range callers {
		done.Go(func() {
			take := c.Caller()
			for i := n; i < all.Len(); i += callers {
				if _, err := take(all.At(i)); err != nil {
					errs[n] = err
					return
				}
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
