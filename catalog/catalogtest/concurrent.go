package catalogtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

// checkConcurrentBatches lets editors add to the same records, reading and
// trying again on a conflict, over two connections.
func checkConcurrentBatches(t *testing.T, open Open) {
	s := newStage(t, open)
	second := *s
	second.store = open(t)
	const editors, edits = 8, 10
	counter := func(id string, n int) catalog.Record {
		r := s.record(id)
		r.Data = fmt.Appendf(nil, `{"n":%d}`, n)
		return r
	}
	s.put(counter("a", 0), counter("b", 0))
	read := func(st *stage, id string) (n int, version int64, err error) {
		r, err := st.store.Get(st.ctx, st.record(id).RecordKey)
		if err == nil {
			_, err = fmt.Sscanf(strings.ReplaceAll(string(r.Data), " ", ""), `{"n":%d}`, &n)
		}
		return n, r.Version, err
	}
	edit := func(st *stage) error {
		for {
			a, av, err := read(st, "a")
			if err != nil {
				return err
			}
			b, bv, err := read(st, "b")
			if err != nil {
				return err
			}
			_, err = st.store.Change(st.ctx, &catalog.Batch{Namespace: st.namespace, Mutations: []catalog.Mutation{
				{Record: counter("a", a+1), If: av}, {Record: counter("b", b+1), If: bv},
			}})
			if !errors.Is(err, catalog.ErrConflict) {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	failed := make(chan error, editors)
	for i := range editors {
		st := s
		if i%2 == 1 {
			st = &second
		}
		wg.Go(func() {
			for range edits {
				if err := edit(st); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	a, av, _ := read(s, "a")
	b, bv, _ := read(s, "b")
	if a != editors*edits || b != a || av != bv || av != editors*edits+1 {
		t.Errorf("a is %d at version %d and b %d at version %d, want %d at version %d", a, av, b, bv, editors*edits, editors*edits+1)
	}
}
