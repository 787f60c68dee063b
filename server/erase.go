package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/badinput"
)

// What is removed can be much, and a request must not take long: it works for a
// while and then says that there is more to do, and the caller sends it again.
// Everything is done so that doing it twice does no harm. What is left of a
// namespace shows in the list of namespaces until all of it is gone.

// eraseFor is how long a request goes on: well below writeTimeout. Tests end it
// when they want.
var eraseFor = func(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 5*time.Second)
}

// settling is how long a namespace is closed before it is emptied, and an entity
// has no keys before it is erased: nodes hear of it within a second, and then
// write what they have counted within another.
const settling = 3 * time.Second

// erasure is how much was removed, by this request.
type erasure struct {
	Done bool `json:"done"` // else send it again, with Next as its cursor if there is one
	catalog.Removed
	Buckets int    `json:"buckets"`
	Replays int    `json:"replays"`
	Slots   int64  `json:"slots"` // events that had one
	Next    string `json:"next,omitempty"`
}

// erasing answers how much work has removed in the time that it had. If that
// was nothing at all, there is no use in sending it again.
func (q *stored) erasing(w http.ResponseWriter, work func(context.Context, *erasure) error) error {
	ctx, cancel := eraseFor(q.Context())
	defer cancel()
	e := erasure{Next: q.cursor}
	begun := e
	err := work(ctx, &e)
	status := http.StatusOK
	if err != nil {
		if q.Context().Err() != nil || ctx.Err() == nil || e == begun {
			return err
		}
		status = http.StatusAccepted
	}
	e.Done = err == nil
	writeJSON(w, status, "application/json", &e)
	return nil
}

// erase removes everything about an entity: what the catalog knows, and what
// would otherwise tell of it for a while: its buckets until they are full, and
// the responses that were stored for it until they expire.
func (q *stored) erase(ctx context.Context, id string, children catalog.Children, e *erasure) error {
	gone := []string{id}
	if children == catalog.DeleteChildren {
		for i := 0; i < len(gone); i++ {
			below, err := q.childrenOf(ctx, gone[i])
			if err != nil {
				return err
			}
			gone = append(gone, below...)
		}
	}
	keys, err := q.lockOut(ctx, gone, children)
	e.Records = keys
	if err != nil {
		return err
	}
	if len(gone) > 1 {
		// Before nobody knows any more that they were its children, lest
		// something is left if this is interrupted.
		if err := q.clear(ctx, gone, e); err != nil {
			return err
		}
		e.Next = ""
	}
	removed, err := q.edit().Erase(ctx, id, children)
	e.Removed = removed
	e.Records += keys
	if err != nil {
		return err
	}
	if err := q.clear(ctx, gone, e); err != nil {
		return err
	}
	e.Next = ""
	return nil
}

// lockOut deletes the keys of entities, and waits until nodes have heard of
// it, so that nobody uses what is about to be erased. It answers how many.
func (q *stored) lockOut(ctx context.Context, entities []string, children catalog.Children) (keys int, err error) {
	if children == catalog.RefuseChildren {
		if below, err := q.childrenOf(ctx, entities[0]); err != nil || len(below) > 0 {
			return 0, err // it will be refused
		}
	}
	for _, id := range entities {
		for {
			page, err := q.catalog.Keys(ctx, q.namespace, id, "", 1000)
			if err != nil {
				return keys, err
			}
			for i := range page.Keys {
				if err := q.edit().DeleteKey(ctx, page.Keys[i].ID); err != nil && !isNotFound(err) {
					return keys, err
				}
				keys++
			}
			if page.Next == "" {
				break
			}
		}
	}
	if keys == 0 {
		return 0, nil
	}
	return keys, pause(ctx, settling)
}

// clear removes what is kept about entities outside of the catalog.
func (q *stored) clear(ctx context.Context, entities []string, e *erasure) error {
	for _, id := range entities {
		if q.replays == nil {
			break
		}
		n, err := q.replays.ForgetAll(ctx, idempotency.Whose{Tenant: idempotency.Tenant(q.namespace, id)})
		e.Replays += n
		if err != nil {
			return err
		}
	}
	for some := range slices.Chunk(entities, sluice.MaxDemands/2) {
		var shared []sluice.Key
		for _, id := range some {
			shared = append(shared, abuse.SharedKeys(q.namespace, id)...)
		}
		if err := q.limiter.Reset(ctx, shared...); err != nil {
			return err
		}
	}
	// One look for all of them: some stores look through everything for it.
	if cursor, ok := strings.CutPrefix(e.Next, atLeases); ok || e.Next == "" {
		err := q.forget(ctx, sluice.Forgetting{Namespace: q.namespace, Entities: entities, Cursor: cursor}, e)
		if err != nil {
			return err
		}
		e.Next = ""
	}
	query := sluice.Query{Namespace: q.namespace, Cursor: e.Next}
	if len(entities) == 1 {
		query.Entity = entities[0]
	}
	slices.Sort(entities)
	for {
		held := false
		err := q.emptyBuckets(ctx, query, e, func(b *sluice.Bucket) bool {
			_, ok := slices.BinarySearch(entities, b.Key.Entity)
			held = held || ok && b.Held.Thousandths() > 0
			return ok
		}, func(cursor string) { e.Next = cursor })
		if err != nil || !held {
			return err
		}
		// A bucket stays while nodes hold tokens of it, and they report what
		// they spent. They have nobody to spend them on any more.
		query.Cursor, e.Next = "", ""
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// forget removes leases and request ids, and notes how far it has got. A store
// that has none has nothing to forget.
func (q *stored) forget(ctx context.Context, f sluice.Forgetting, e *erasure) (err error) {
	for {
		if f.Cursor, err = q.limiter.Forget(ctx, f); f.Cursor == "" || err != nil {
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			return err
		}
		e.Next = atLeases + f.Cursor
	}
}

func (q *stored) childrenOf(ctx context.Context, id string) (all []string, err error) {
	for query := (catalog.EntityQuery{Parent: id, Max: 1000}); ; {
		page, err := q.catalog.Entities(ctx, q.namespace, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Entities {
			all = append(all, page.Entities[i].ID)
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return all, nil
		}
	}
}

// emptyBuckets resets buckets that are in use, and tells how far it has got. A
// store that cannot list has nothing to be found in.
func (q *stored) emptyBuckets(ctx context.Context, query sluice.Query, e *erasure, meant func(*sluice.Bucket) bool, at func(cursor string)) error {
	for query.Max = 1000; ; {
		page, err := q.limiter.List(ctx, query)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		var keys []sluice.Key
		for i := range page.Buckets {
			if meant(&page.Buckets[i]) {
				keys = append(keys, page.Buckets[i].Key)
			}
		}
		for some := range slices.Chunk(keys, sluice.MaxDemands) {
			if err := q.limiter.Reset(ctx, some...); err != nil {
				return err
			}
			e.Buckets += len(some)
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return nil
		}
		at(query.Cursor)
	}
}

// The steps in which an entity or a namespace is removed, as cursors name them.
const (
	atLeases  = "leases "  // and the cursor of the limiter's Forget
	atBuckets = "buckets " // and the cursor of a list of them
	atCatalog = "catalog"
)

// emptyNamespace removes everything in a namespace that is closed, and then
// the namespace.
func (q *stored) emptyNamespace(ctx context.Context, name, from string, e *erasure) error {
	if from != "" && from != atCatalog && !strings.HasPrefix(from, atBuckets) && !strings.HasPrefix(from, atLeases) {
		return badinput.Field("cursor", from, "must be next of the previous answer")
	}
	if from != atCatalog {
		if q.replays != nil {
			n, err := q.replays.ForgetAll(ctx, idempotency.Whose{Tenant: name, Below: true})
			e.Replays = n
			if err != nil {
				return err
			}
		}
		if q.slots != nil {
			n, err := q.slots.Erase(ctx, name)
			e.Slots = n
			if err != nil {
				return err
			}
		}
		all := func(*sluice.Bucket) bool { return true }
		query := sluice.Query{Namespace: name}
		var inBuckets bool
		if query.Cursor, inBuckets = strings.CutPrefix(from, atBuckets); !inBuckets {
			query.Cursor = ""
			sanctions := abuse.SharedQuery(name)
			f := sluice.Forgetting{Namespace: name, Cursor: strings.TrimPrefix(from, atLeases)}
			if err := q.emptyBuckets(ctx, sanctions, &erasure{}, all, func(string) {}); err != nil {
				return err
			}
			if err := q.forget(ctx, f, e); err != nil {
				return err
			}
		}
		err := q.emptyBuckets(ctx, query, e, all, func(cursor string) { e.Next = atBuckets + cursor })
		if err != nil {
			return err
		}
		e.Next = atCatalog
	}
	// The catalog is last, because it knows that there is something to do.
	removed, err := q.catalog.Edit(name, by(q.Request, q.caller)).DeleteNamespace(ctx)
	e.Removed = removed
	if err == nil {
		e.Next = ""
	}
	return err
}

// settled waits until nodes have heard that a namespace is closed.
func settled(ctx context.Context, n *catalog.Namespace) error {
	return pause(ctx, min(settling-time.Since(n.Closed), settling))
}

func pause(ctx context.Context, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
