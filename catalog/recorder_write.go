package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-go/sluice"
)

func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(r.config.Every)
	defer tick.Stop()
	retention := time.NewTicker(time.Hour)
	defer retention.Stop()
	late := false
	for {
		select {
		case <-tick.C:
			err := r.write(ctx)
			if ctx.Err() == nil && (err != nil) != late { // say it once
				late = err != nil
				if late {
					r.config.Log.Warn("catalog: usage is written later", "error", err)
				} else {
					r.config.Log.Info("catalog: usage is written again")
				}
			}
		case <-retention.C:
			if err := r.prune(ctx); err != nil && ctx.Err() == nil {
				r.config.Log.Warn("catalog: old usage is removed later", "error", err)
			}
		case answer := <-r.flush:
			answer <- r.write(ctx)
		case answer := <-r.pruning:
			answer <- r.prune(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// write sends what is unsent, and then what was counted since. While the
// store is away, counting goes on in place, so that memory is bounded.
func (r *Recorder) write(ctx context.Context) error {
	if err := r.send(ctx); err != nil {
		return err
	}
	if err := r.collect(ctx); err != nil {
		return err
	}
	return r.send(ctx)
}

// collect makes batches of what was counted since the last time.
func (r *Recorder) collect(ctx context.Context) error {
	if len(r.sums) == 0 { // else it was not known where to book it
		r.drain()
	}
	if err := r.fit(ctx); err != nil {
		return err
	}
	rows := r.rows()
	for size := min(r.config.Store.MaxBatch(), 5000); len(rows) > 0; {
		n := min(len(rows), size)
		r.seq++
		r.unsent = append(r.unsent, &UsageBatch{Node: r.node, Seq: r.seq, Rows: rows[:n], Erased: r.erased})
		rows = rows[n:]
	}
	return nil
}

// forget drops what was counted until now for entities that were erased, of takes
// before that. Later ones are of somebody new with the same name.
func (r *Recorder) forget(ctx context.Context) error {
	hash, err := erasedHashes(ctx, r.config.Store)
	if err != nil {
		return err
	}
	versions := maps.Clone(r.erased)
	gone := map[string]time.Time{}
	c := &Catalog{store: r.config.Store}
	asked := map[string]bool{}
	for i := range r.unsent[0].Rows {
		namespace := r.unsent[0].Rows[i].Namespace
		if asked[namespace] {
			continue
		}
		asked[namespace] = true
		guard, err := r.config.Store.Get(ctx, RecordKey{namespace, KindGuard, ErasedGuard, ""})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		marks, err := c.all(ctx, ListQuery{Namespace: namespace, Kind: KindErased})
		if err != nil {
			return err
		}
		for _, r := range marks {
			var m mark
			if err := decode(r, &m); err != nil {
				return err
			}
			if r.Version > versions[namespace] {
				gone[r.ID] = m.At
			}
		}
		versions[namespace] = guard.Version
	}
	if err := r.collect(ctx); err != nil {
		return err
	}
	r.erased = versions
	for _, b := range r.unsent {
		b.Erased = versions
		b.Rows = slices.DeleteFunc(b.Rows, func(row UsageRow) bool {
			at, erased := gone[hash(row.Namespace, row.Entity)]
			return erased && asked[row.Namespace] && row.first.Before(at.Add(erasedSkew))
		})
	}
	return nil
}

func (r *Recorder) send(ctx context.Context) error {
	for len(r.unsent) > 0 {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		err := r.config.Store.AddUsage(ctx, r.unsent[0])
		if errors.Is(err, ErrErased) {
			err = r.forget(ctx)
			cancel()
			if err == nil {
				continue
			}
		}
		cancel()
		if err != nil {
			r.failures.Add(1)
			return err
		}
		r.written.Add(int64(len(r.unsent[0].Rows)))
		r.unsent = r.unsent[1:]
	}
	return nil
}

// drain adds up what was counted since the last time.
func (r *Recorder) drain() {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.Lock()
		counted, other := sh.now, sh.other
		sh.now, sh.spare = sh.spare, counted
		if len(other) > 0 {
			sh.other = map[bin]amount{}
		}
		sh.Unlock()
		for _, some := range []map[bin]amount{counted, other} {
			for at, a := range some {
				at.Key = printable(at.Key)
				r.sums[at] = r.sums[at].plus(a)
			}
		}
		clear(counted)
	}
}

// rows is what was drained, of each hour, and summed up for each day and for the
// total of each series.
func (r *Recorder) rows() []UsageRow {
	hours := r.sums
	if len(hours) == 0 {
		return nil
	}
	rows := make([]UsageRow, 0, 3*len(hours))
	days, totals := make(map[bin]amount, len(hours)), make(map[bin]amount, len(hours))
	for at, a := range hours {
		rows = append(rows, at.row(Hourly, a))
		at.hour = Daily.start(time.Unix(at.hour, 0)).Unix()
		days[at] = days[at].plus(a)
		at.hour = 0
		totals[at] = totals[at].plus(a)
	}
	for at, a := range days {
		rows = append(rows, at.row(Daily, a))
	}
	for at, a := range totals {
		rows = append(rows, at.row(Total, a))
	}
	clear(hours)
	return rows
}

func (b bin) row(span Span, a amount) UsageRow {
	row := UsageRow{
		Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource, Limit: b.Limit,
		Span: span, Amount: a.tokens, Count: a.takes, first: time.UnixMicro(a.first),
	}
	if span != Total {
		row.Start = time.Unix(b.hour, 0).UTC()
	}
	if a.last != 0 {
		row.Last = time.UnixMicro(a.last).UTC()
	}
	return row
}

// totalsEvery is how often totals are looked through for those that nobody
// adds to any more: no index leads to them, because every write would move it.
const totalsEvery = 24 * time.Hour

// printable is k with all in it that not every database can store replaced.
// The keys of buckets may be any bytes.
func printable(k sluice.Key) sluice.Key {
	for _, part := range []*string{&k.Namespace, &k.Entity, &k.Resource, &k.Limit} {
		if utf8.ValidString(*part) && !strings.ContainsFunc(*part, unicode.IsControl) {
			continue
		}
		*part = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == utf8.RuneError {
				return '?'
			}
			return r
		}, *part)
	}
	return k
}

// prune removes usage that is older than it is kept, in all namespaces.
func (r *Recorder) prune(ctx context.Context) error {
	clear(r.rooms) // there may be more
	c := &Catalog{store: r.config.Store}
	now := r.config.Clock()
	spans := map[Span]time.Duration{Hourly: r.config.Hours, Daily: r.config.Days}
	if now.Sub(r.pruned) >= totalsEvery {
		spans[Total], r.pruned = r.config.Days, now
	}
	for _, span := range []Span{Hourly, Daily, Total} { // a total goes once its days are gone
		kept, ok := spans[span]
		if !ok {
			continue
		}
		before := now.Add(-kept).UTC().Truncate(time.Hour)
		if span != Hourly {
			before = Daily.start(before)
		}
		if _, err := c.purge(ctx, Purge{Target: PurgeUsage, Span: span, Before: before}); err != nil {
			return err
		}
	}
	_, err := c.purge(ctx, Purge{Target: PurgeNodes, Before: now.Add(-nodesKept)})
	return err
}
