package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

// stuck is a store that answers about keys when it is told to.
type stuck struct {
	catalog.Store
	answer chan struct{}
}

func (s *stuck) Find(ctx context.Context, kind catalog.Kind, id string) (catalog.Record, error) {
	select {
	case <-s.answer:
		return s.Store.Find(ctx, kind, id)
	case <-ctx.Done():
		return catalog.Record{}, ctx.Err()
	}
}

// TestMadeUpKeysDoNotPileUp: who sends keys that nobody has, and goes before
// the answer, leaves little behind while the store is slow.
func TestMadeUpKeysDoNotPileUp(t *testing.T) {
	b := open(t, catalog.Config{})
	s := &stuck{b.store.Store, make(chan struct{})}
	c, err := catalog.Open(t.Context(), catalog.Config{Store: s})
	b.no(err)
	defer c.Close()
	_, key, err := b.e.CreateKey(t.Context(), catalog.Key{Entity: "alice"})
	b.no(err)

	before := runtime.NumGoroutine()
	gone, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 5000 {
		wg.Go(func() {
			_, err := c.VerifyKey(gone, fmt.Sprintf("slk_%s_x", "aaaaaaaaaaa"+fmt.Sprintf("%c%c%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, 'a', 'b')))
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	b.eventually("they wait", func() bool { return c.Stats().Keys.Misses >= 5000 })
	cancel()
	wg.Wait()
	if n := runtime.NumGoroutine() - before; n > 300 {
		t.Errorf("%d are left behind", n)
	}
	close(s.answer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if k, err := c.VerifyKey(ctx, key); err != nil || k.Entity != "alice" {
		t.Errorf("%v, %v", k, err)
	}
}
