package catalog

import (
	"context"
	"encoding/hex"
	"errors"
	"time"
)

const erased = "entity.erase"

// Removed is how much was removed.
type Removed struct {
	Records int `json:"records"` // entities, limits, overrides, keys and the like
	Usage   int `json:"usage"`   // rows of it
	Events  int `json:"events"`  // of the audit log
}

func (r *Removed) add(more Removed) {
	r.Records += more.Records
	r.Usage += more.Usage
	r.Events += more.Events
}

// Erase removes everything about an entity, whether or not it has a record:
// itself, its limits, overrides and keys, its usage, and the audit events
// about it. It answers how much that was. It is done in steps: if it is
// interrupted, call it again.
//
// The name is kept nowhere. One event says that it was erased, by whom and why,
// about a keyed hash of the name: [Catalog.Audit] finds it by the name. What
// nodes have counted before they hear of it is dropped when they write it,
// however late that is. Events about other entities may mention the name, as
// that of a parent.
//
// Buckets are the limiter's, see [sluice.Limiter.Reset], and stored responses
// the keeper's.
func (e *Editor) Erase(ctx context.Context, id string, children Children) (removed Removed, err error) {
	if children == DeleteChildren {
		// One after the other, each as a whole, so that it can be resumed.
		below, err := e.catalog.all(ctx, ListQuery{Namespace: e.namespace, Kind: KindEntity, Under: id})
		if err != nil {
			return removed, err
		}
		for _, child := range below {
			more, err := e.Erase(ctx, child.ID, DeleteChildren)
			removed.add(more)
			if err != nil {
				return removed, err
			}
		}
		children = RefuseChildren
	}
	records, err := e.deleteEntity(ctx, id, 0, children, erased)
	if errors.Is(err, ErrNotFound) {
		records, err = e.eraseOwned(ctx, id)
	}
	removed.Records += records
	if err != nil {
		return removed, err
	}
	if err := e.markErased(ctx, id); err != nil {
		return removed, err
	}
	for _, p := range []struct {
		target Target
		count  *int
	}{{PurgeUsage, &removed.Usage}, {PurgeEvents, &removed.Events}, {PurgeChanges, new(int)}} {
		n, err := e.catalog.purge(ctx, Purge{Target: p.target, Namespace: e.namespace, Entity: id})
		*p.count += n
		if err != nil {
			return removed, err
		}
	}
	removed.Events-- // one says that it was erased, and is back under another name
	return removed, nil
}

// ErasedGuard is the guard whose version changes when an entity is erased.
const ErasedGuard = "erased"

// ErrErased says that something was erased since a node began to count.
var ErrErased = errors.New("an entity was erased meanwhile")

// erasedKept is how long it is known that an entity was erased. Nodes that were
// away for longer may write about it.
const erasedKept = 30 * 24 * time.Hour

// erasedSkew is by how much the clocks of nodes and stores may differ. A take so
// soon after an entity was erased may count as one before.
const erasedSkew = 5 * time.Second

// mark is what is remembered of an entity that was erased.
type mark struct {
	At time.Time `json:"at"`
}

// markErased makes nodes drop what they have counted for an entity, and files
// the event that says so.
func (e *Editor) markErased(ctx context.Context, id string) error {
	hash, err := e.catalog.erasedHash(ctx, e.namespace, id)
	if err != nil {
		return err
	}
	// It may have been erased before, and says so once.
	if _, err := e.catalog.purge(ctx, Purge{Target: PurgeEvents, Namespace: e.namespace, Entity: erasedSubject + hash}); err != nil {
		return err
	}
	_, err = e.attempt(ctx, func(b *build) error {
		data, err := encode(mark{b.now})
		if err != nil {
			return err
		}
		b.add(Mutation{Record: Record{RecordKey: RecordKey{e.namespace, KindErased, hash, ""}, Data: data}, If: IfAny}, false)
		b.touch(ErasedGuard)
		old, err := e.catalog.store.List(ctx, ListQuery{Namespace: e.namespace, Kind: KindErased, Max: 100})
		if err != nil {
			return err
		}
		for _, r := range old.Records {
			var m mark
			if err := decode(r, &m); err != nil {
				return err
			}
			if r.ID != hash && b.now.Sub(m.At) > erasedKept {
				b.remove(&r, 0)
			}
		}
		return b.event(erased, erasedSubject+hash, nil, nil)
	}, nil)
	return err
}

// erasedSubject and a hash are the subject of an erased entity's event.
const erasedSubject = "$ERASED:"

// erasedHash is what is kept of the name of an erased entity.
func (c *Catalog) erasedHash(ctx context.Context, namespace, id string) (string, error) {
	hash, err := erasedHashes(ctx, c.store)
	if err != nil {
		return "", err
	}
	return hash(namespace, id), nil
}

// erasedHashes hashes the names of entities. The key is in the catalog, so that
// all nodes have the same, and who sees a hash alone cannot guess names.
func erasedHashes(ctx context.Context, store Store) (func(namespace, id string) string, error) {
	secret, err := storedSecret(ctx, store, "erased")
	if err != nil {
		return nil, err
	}
	h := newHashes(secret)
	return func(namespace, id string) string {
		sum := h.sum(namespace + "/" + id) // names of namespaces have no /
		return hex.EncodeToString(sum[:16])
	}, nil
}

// eraseOwned deletes what is stored for an id that has no entity, and answers
// how many records that was.
func (e *Editor) eraseOwned(ctx context.Context, id string) (records int, err error) {
	_, err = e.attempt(ctx, func(b *build) error {
		owned, err := e.catalog.owned(ctx, e.namespace, id)
		if err != nil {
			return err
		}
		for _, r := range owned {
			b.remove(&r, 0)
		}
		records = len(owned)
		return b.event(erased, id, nil, nil)
	}, nil)
	if err != nil {
		return 0, err
	}
	return records, nil
}
