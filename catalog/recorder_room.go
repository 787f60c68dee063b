package catalog

import (
	"context"
	"hash/maphash"
	"slices"
	"time"
)

// room is how many more series may be stored in a namespace.
type room struct {
	left    int
	counted time.Time
	known   map[uint64]struct{} // hashes of the series that are stored
	full    time.Time           // when that was last said
}

// roomEvery is how often the series of a namespace are counted.
const roomEvery = time.Minute

// fit books what was drained of series for which there is no room as
// [OtherEntity]'s.
func (r *Recorder) fit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	unknown := map[string]map[Series]bool{} // by namespace
	for at := range r.sums {
		rm := r.rooms[at.Namespace]
		if rm == nil {
			rm = &room{known: map[uint64]struct{}{}}
			r.rooms[at.Namespace] = rm
		}
		s := Series{at.Entity, at.Resource, at.Limit}
		if _, ok := rm.known[hashSeries(s)]; ok || at.Entity == OtherEntity {
			continue
		}
		if unknown[at.Namespace] == nil {
			unknown[at.Namespace] = map[Series]bool{}
		}
		unknown[at.Namespace][s] = true
	}
	for namespace, series := range unknown {
		if err := r.admit(ctx, namespace, series); err != nil {
			return err
		}
	}
	moved := int64(0)
	for at, a := range r.sums {
		if !unknown[at.Namespace][Series{at.Entity, at.Resource, at.Limit}] {
			continue
		}
		delete(r.sums, at)
		at.Entity, at.Resource, at.Limit = OtherEntity, OtherEntity, OtherEntity
		r.sums[at] = r.sums[at].plus(a)
		moved++
	}
	r.other.Add(moved)
	return nil
}

// admit takes those out of series that are stored, or for which there is room.
func (r *Recorder) admit(ctx context.Context, namespace string, series map[Series]bool) error {
	rm, now := r.rooms[namespace], r.config.Clock()
	if now.Sub(rm.counted) >= roomEvery || rm.counted.IsZero() {
		n, err := r.config.Store.CountSeries(ctx, namespace, r.config.Stored)
		if err != nil {
			return err
		}
		rm.left, rm.counted = r.config.Stored-n, now
	}
	asked := make([]Series, 0, len(series))
	for s := range series {
		asked = append(asked, s)
	}
	for some := range slices.Chunk(asked, maxTotals) {
		stored, err := r.config.Store.Totals(ctx, namespace, some)
		if err != nil {
			return err
		}
		for i := range stored {
			rm.learn(Series{stored[i].Entity, stored[i].Resource, stored[i].Limit}, series, r.config.Stored)
		}
	}
	for s := range series {
		if rm.left <= 0 {
			break
		}
		rm.left--
		rm.learn(s, series, r.config.Stored)
	}
	if len(series) > 0 && now.Sub(rm.full) >= roomEvery {
		rm.full = now
		r.config.Log.Warn("catalog: too many names are in use: the usage of further ones is counted together",
			"namespace", namespace, "stored", r.config.Stored, "further", len(series), "as", OtherEntity)
	}
	return nil
}

func (rm *room) learn(s Series, unknown map[Series]bool, most int) {
	delete(unknown, s)
	if len(rm.known) >= 2*most {
		clear(rm.known)
	}
	rm.known[hashSeries(s)] = struct{}{}
}

func hashSeries(s Series) uint64 { return maphash.Comparable(seed, s) }
