package limitstore

import (
	"sync"

	"github.com/sluice-go/sluice/dynamodb"
)

// hints are items as this process has seen them last. Nothing is answered from them:
// they only tell which write is likely to succeed, which others may have made untrue.
// So an item that is mostly used by one node is mostly written without being read.
type hints struct {
	mu sync.Mutex
	of map[dynamodb.Key]dynamodb.Item
}

// maxHints is how many are kept, of one to three kilobytes each.
const maxHints = 20_000

func (h *hints) get(k dynamodb.Key) (dynamodb.Item, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	item, ok := h.of[k]
	return item, ok
}

// keep remembers an item with buckets, in the place of another if there are too many.
func (h *hints) keep(k dynamodb.Key, item dynamodb.Item) {
	if k.SK == receiptSK {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[dynamodb.Key]dynamodb.Item{}
	}
	if _, ok := h.of[k]; !ok && len(h.of) >= maxHints {
		for other := range h.of {
			delete(h.of, other)
			break
		}
	}
	h.of[k] = item
}

func (h *hints) drop(k dynamodb.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, k)
}
