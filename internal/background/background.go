// Package background runs what goes on beside the calls of a store.
package background

import (
	"context"
	"sync"
)

// Work is goroutines that end together.
type Work struct {
	life    context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns work that has not ended.
func New() *Work {
	w := &Work{}
	w.life, w.cancel = context.WithCancel(context.Background())
	return w
}

// Life returns a context that ends with Close.
func (w *Work) Life() context.Context { return w.life }

// Go runs f in a goroutine that Close waits for. f must return when [Work.Life]
// ends.
func (w *Work) Go(f func()) { w.running.Go(f) }

// Close ends the context of Life, and waits for all goroutines.
func (w *Work) Close() error {
	w.cancel()
	w.running.Wait()
	return nil
}
