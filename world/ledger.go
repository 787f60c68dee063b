package world

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// ledger is where usage is written down: as much of a [catalog.Store] as a
// recorder needs.
type ledger struct {
	mu      sync.Mutex
	rows    map[series]catalog.UsageRow
	applied map[string]int64 // the last batch of each recorder

	// written is when that of the batches that was applied last had been
	// counted until, for each node.
	written map[*node]time.Duration
	erased  map[string]bool // entities
}

// series is what a row is told by.
type series struct {
	entity, limit string
	span          catalog.Span
	start         int64
}

func newLedger() *ledger {
	return &ledger{rows: map[series]catalog.UsageRow{}, applied: map[string]int64{}, written: map[*node]time.Duration{}, erased: map[string]bool{}}
}

func (l *ledger) add(n *node, b *catalog.UsageBatch, counted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Seq <= l.applied[b.Node] {
		return
	}
	l.applied[b.Node], l.written[n] = b.Seq, counted
	for _, row := range b.Rows {
		s := series{row.Entity, row.Limit, row.Span, row.Start.Unix()}
		sum := l.rows[s]
		row.Amount += sum.Amount
		row.Count += sum.Count
		l.rows[s] = row
	}
}

// erase forgets an entity, as catalog's Erase does.
func (l *ledger) erase(entity string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erased[entity] = true
	for s := range l.rows {
		if s.entity == entity {
			delete(l.rows, s)
		}
	}
}

// ledgerPort is a node's way to the ledger.
type ledgerPort struct {
	catalog.Store // nothing else of it is used
	node          *node
	seq           int64
	counted       time.Duration // when the batch with that number was first sent
}

func (p *ledgerPort) MaxBatch() int { return 1000 }

func (p *ledgerPort) AddUsage(ctx context.Context, b *catalog.UsageBatch) error {
	w := p.node.world
	if p.seq != b.Seq {
		p.seq, p.counted = b.Seq, w.elapsed()
	}
	if w.active(NoLedger, -1) {
		return sluice.ErrUnavailable
	}
	batch, counted := *b, p.counted // rows are not used again
	return p.node.port.send(ctx, "usage", uint64(b.Seq), func() { w.ledger.add(p.node, &batch, counted) })
}

// CountSeries and Totals say that nothing is stored, so that there is room.
func (p *ledgerPort) CountSeries(context.Context, string, int) (int, error) { return 0, nil }

func (p *ledgerPort) Totals(context.Context, string, []catalog.Series) ([]catalog.UsageRow, error) {
	return nil, nil
}

// List and Purge are for what a recorder does every hour.
func (p *ledgerPort) List(context.Context, catalog.ListQuery) (catalog.RecordPage, error) {
	return catalog.RecordPage{}, nil
}

func (p *ledgerPort) Purge(context.Context, catalog.Purge) (int, error) { return 0, nil }
