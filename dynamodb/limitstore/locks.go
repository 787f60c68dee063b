package limitstore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
)

// locks keep calls of this process on the same item from disturbing each other: of
// those that decide at the same time only one could write.
type locks struct {
	mu sync.Mutex
	of map[dynamodb.Key]*lock
}

type lock struct {
	free chan struct{} // has one while nobody holds it
	uses int           // who holds it and who waits for it
}

func (l *locks) start() { l.of = map[dynamodb.Key]*lock{} }

var errBusy = fmt.Errorf("dynamodb: %w", sluice.ErrBusy)

// lock locks all keys, in one order whatever order they have, until unlock. It fails
// if ctx ends first.
func (l *locks) lock(ctx context.Context, keys []dynamodb.Key) (unlock func(), err error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, compareKeys)
	keys = slices.Compact(keys)
	for i, k := range keys {
		if err := l.one(ctx, k); err != nil {
			l.unlock(keys[:i])
			return nil, err
		}
	}
	return func() { l.unlock(keys) }, nil
}

func (l *locks) one(ctx context.Context, k dynamodb.Key) error {
	l.mu.Lock()
	one := l.of[k]
	if one == nil {
		one = &lock{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		l.of[k] = one
	}
	one.uses++
	l.mu.Unlock()
	select {
	case <-one.free:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leave(k, one)
		return errBusy
	}
}

func (l *locks) unlock(keys []dynamodb.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		one := l.of[k]
		one.free <- struct{}{}
		l.leave(k, one)
	}
}

func (l *locks) leave(k dynamodb.Key, one *lock) {
	if one.uses--; one.uses == 0 {
		delete(l.of, k)
	}
}
