package abuse

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/sluice-go/sluice"
)

// A sanction that nodes share is a token bucket in their store, of one token that
// needs as long as the sanction to come back, and that was taken. So it ends by
// itself, ends early by a reset, and tells when it began. Buckets of one record
// are listed with one look, so there are a few records for all sanctions.
const (
	records   = 4
	syncEvery = 2 * time.Second
	syncWait  = time.Second
)

// SharedKeys returns the keys of the buckets that nodes share the sanctions on an
// entity in: whoever resets them lifts the sanctions without a word.
func SharedKeys(namespace, entity string) []sluice.Key {
	return []sluice.Key{sharedKey(namespace, Ban, entity), sharedKey(namespace, Emergency, entity)}
}

// SharedQuery returns what finds all sanctions that nodes share in a namespace.
func SharedQuery(namespace string) sluice.Query {
	key := record(namespace, Ban, 0)
	return sluice.Query{Namespace: key.Namespace, Entity: key.Entity}
}

// sharedKey is where the sanction of a caller is.
func sharedKey(namespace string, kind Kind, entity string) sluice.Key {
	h := fnv.New32a()
	h.Write([]byte(entity)) //nolint:errcheck // it cannot fail
	key := record(namespace, kind, h.Sum32()%records)
	key.Limit = entity
	return key
}

func record(namespace string, kind Kind, n uint32) sluice.Key {
	return sluice.Key{Namespace: "$sluice", Entity: "sanctions:" + namespace, Resource: fmt.Sprintf("%s/%d", kind, n)}
}

// shared is a sanction that the store has told of.
type shared struct {
	entity string
	kind   Kind
}

// sync tells the store of sanctions that have begun here, and hears of all others,
// until the guard is closed.
func (g *Guard) sync() {
	defer close(g.synced)
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-g.closing.Done():
			return
		case <-g.begun:
		case <-ticker.C:
		}
		g.syncing.Lock()
		g.publish()
		g.hear()
		g.syncing.Unlock()
	}
}

// publish tells the store of the sanctions that only this node knows of. Those that
// it is told of are the store's from then on.
func (g *Guard) publish() {
	for _, s := range g.local() {
		ctx, cancel := context.WithTimeout(g.closing, syncWait)
		d, err := g.limiter.Take(ctx, sluice.Demand{
			Key:      sharedKey(g.config.Namespace, s.Kind, s.Entity),
			Limit:    sluice.Limit{Amount: sluice.Tokens(1), Period: s.Until.Sub(s.Since)},
			Critical: true, OnUnavailable: sluice.Deny,
		})
		cancel()
		if err != nil || d.Source != sluice.FromStore {
			continue // until the next time it holds here
		}
		g.share(func(all map[shared]Sanction) { all[shared{s.Entity, s.Kind}] = s })
		g.forget(&s)
	}
}

// hear replaces what is known of the store's sanctions.
func (g *Guard) hear() {
	found := map[shared]Sanction{}
	for _, kind := range []Kind{Ban, Emergency} {
		for n := range uint32(records) {
			ctx, cancel := context.WithTimeout(g.closing, syncWait)
			key := record(g.config.Namespace, kind, n)
			page, err := g.limiter.List(ctx, sluice.Query{Namespace: key.Namespace, Entity: key.Entity, Resource: key.Resource, Max: 1000})
			cancel()
			if err != nil {
				return // what is known stays
			}
			for i := range page.Buckets {
				b := &page.Buckets[i]
				until := time.Now().Add(b.Reset)
				found[shared{b.Key.Limit, kind}] = Sanction{
					Entity: b.Key.Limit, Kind: kind, Reason: reasons[kind], Since: until.Add(-b.Limit.Period), Until: until,
				}
			}
		}
	}
	g.known.Store(&found)
}

// share changes a copy of what is known of the store's sanctions.
func (g *Guard) share(change func(map[shared]Sanction)) {
	all := map[shared]Sanction{}
	for k, s := range *g.known.Load() {
		all[k] = s
	}
	change(all)
	g.known.Store(&all)
}

// liftShared ends the sanctions on an entity for all nodes, and reports which
// there were.
func (g *Guard) liftShared(ctx context.Context, entity string) ([]Sanction, error) {
	if g.limiter == nil {
		return nil, nil
	}
	g.syncing.Lock() // or what was heard before would bring it back
	defer g.syncing.Unlock()
	var lifted []Sanction
	for _, kind := range []Kind{Ban, Emergency} {
		if s, ok := (*g.known.Load())[shared{entity, kind}]; ok && time.Now().Before(s.Until) {
			lifted = append(lifted, s)
		}
	}
	err := g.limiter.Reset(ctx, SharedKeys(g.config.Namespace, entity)...)
	if err != nil {
		return nil, fmt.Errorf("lifting it for all nodes: %w", err)
	}
	g.share(func(all map[shared]Sanction) {
		delete(all, shared{entity, Ban})
		delete(all, shared{entity, Emergency})
	})
	return lifted, nil
}

// Close stops listening to the store.
func (g *Guard) Close() error {
	if g.limiter == nil {
		return nil
	}
	g.close()
	<-g.synced
	return nil
}

var errNamespace = errors.New("abuse.namespace: must be at most 200 bytes long")
