package limitstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
)

const (
	receiptPrefix    = "REQUEST#"
	receiptSK        = "#RECEIPT"
	receiptAttribute = "receipt"
)

func receiptKey(id string) dynamodb.Key {
	return dynamodb.Key{PK: receiptPrefix + dynamodb.Escape(id), SK: receiptSK}
}

// receiptItem is the item of a request id.
type receiptItem struct {
	key     dynamodb.Key
	version int64
	*receipt
	damaged error
	changed bool
}

// receipt is what is kept of a take that had an effect and has an id: what to answer
// to a repetition and, for a lease, what was charged.
type receipt struct {
	print   []byte // see bucket.Print
	allowed bool
	lease   bool          // it can be settled
	closed  sluice.Action // Commit or Release, once one came; else Adjust
	taken   int64
	expires int64
	demands []sluice.Demand
	results []sluice.Result
	charges []int64 // what it costs now
}

// readReceipt reads the item of an id, nil if there is none.
func readReceipt(id string, raw dynamodb.Item) *receiptItem {
	r := &receiptItem{key: receiptKey(id)}
	r.version, _ = dynamodb.Number(raw[versionAttribute])
	if b, ok := raw[receiptAttribute].(*types.AttributeValueMemberB); ok {
		r.receipt, r.damaged = decodeReceipt(b.Value)
	}
	return r
}

// valid returns the receipt if it is not over.
func (r *receiptItem) valid(now int64) (*receipt, error) {
	if r.damaged != nil {
		return nil, fmt.Errorf("dynamodb: %w: request id %q: %w", sluice.ErrRecord, r.key.PK, r.damaged)
	}
	if r.receipt == nil || r.expires <= now {
		return nil, nil
	}
	return r.receipt, nil
}

// keep has a new receipt written.
func (r *receiptItem) keep(n *receipt) { r.receipt, r.changed = n, true }

func (r *receiptItem) write() dynamodb.Item {
	item := r.key.Item()
	item[versionAttribute] = dynamodb.N(r.version + 1)
	item[receiptAttribute] = &types.AttributeValueMemberB{Value: encodeReceipt(r.receipt)}
	item[dynamodb.TTL] = dynamodb.N(time.UnixMicro(r.expires).Add(keepItems).Unix())
	return item
}

// newReceipt returns what is kept of a take, nil if it had no effect.
func newReceipt(t *sluice.Take, d *sluice.Decision, at, expires int64) *receipt {
	effect := d.Allowed
	r := &receipt{
		print: bucket.Print(t), allowed: d.Allowed, lease: t.Lease && d.Allowed, taken: at, expires: expires,
		demands: slices.Clone(t.Demands), results: slices.Clone(d.Results),
	}
	for i := range d.Results {
		n := d.Results[i].Consumed.Thousandths()
		effect = effect || n != 0
		r.charges = append(r.charges, n)
	}
	if !effect {
		return nil
	}
	return r
}

// replay answers a take that is repeated, of the buckets it had the first time. What
// nodes hold is not remembered.
func (r *receipt) replay(t *sluice.Take, d *sluice.Decision, now int64) error {
	if !bucket.Repeats(r.print, t, bucket.Print) { // no earlier version told takes apart otherwise
		return fmt.Errorf("take %q: %w", t.ID, sluice.ErrRequestMismatch)
	}
	results := append(d.Results[:0], r.results...)
	for i := range results {
		results[i].Free = results[i].Remaining
	}
	*d = sluice.Decision{
		Allowed: r.allowed, ID: t.ID, Repeated: true, Source: sluice.FromStore, Time: time.UnixMicro(now),
		Demands: bucket.Then(r.demands, t.Demands), Results: results,
	}
	d.Conclude()
	return nil
}

func encodeReceipt(r *receipt) []byte {
	w := &writer{}
	w.number(binaryVersion)
	w.text(string(r.print))
	w.number(flags(r.allowed, r.lease))
	w.number(int64(r.closed))
	w.number(r.taken)
	w.number(r.expires)
	w.unsigned(uint64(len(r.demands)))
	for i := range r.demands {
		dm, res := &r.demands[i], &r.results[i]
		w.text(dm.Key.Namespace)
		w.text(dm.Key.Entity)
		w.text(dm.Key.Resource)
		w.text(dm.Key.Limit)
		w.limit(dm.Limit)
		w.number(dm.Cost.Thousandths())
		w.number(flags(dm.Shadow, dm.CountRefused, dm.Critical, res.Fits, res.Held))
		w.number(int64(dm.OnUnavailable))
		w.number(int64(dm.Level))
		w.number(res.Consumed.Thousandths())
		w.number(res.Remaining.Thousandths())
		w.number(int64(res.RetryAfter))
		w.number(int64(res.LatestAfter))
		w.number(int64(res.ResetAfter))
		w.number(r.charges[i])
	}
	return w.b
}

func decodeReceipt(b []byte) (*receipt, error) {
	in := &reader{b: b}
	if in.number() > binaryVersion {
		return nil, errVersion
	}
	r := &receipt{print: []byte(in.text())}
	unflag(in.number(), &r.allowed, &r.lease)
	r.closed, r.taken, r.expires = sluice.Action(in.number()), in.number(), in.number()
	for range in.count() {
		var dm sluice.Demand
		var res sluice.Result
		dm.Key = sluice.Key{Namespace: in.text(), Entity: in.text(), Resource: in.text(), Limit: in.text()}
		dm.Limit = in.limit()
		dm.Cost = sluice.Thousandths(in.number())
		unflag(in.number(), &dm.Shadow, &dm.CountRefused, &dm.Critical, &res.Fits, &res.Held)
		dm.OnUnavailable, dm.Level = sluice.OnUnavailable(in.number()), sluice.Level(in.number())
		res.Consumed, res.Remaining = sluice.Thousandths(in.number()), sluice.Thousandths(in.number())
		res.RetryAfter, res.LatestAfter, res.ResetAfter = time.Duration(in.number()), time.Duration(in.number()), time.Duration(in.number())
		r.demands, r.results, r.charges = append(r.demands, dm), append(r.results, res), append(r.charges, in.number())
	}
	return r, in.err
}

func flags(bits ...bool) (n int64) {
	for i, b := range bits {
		if b {
			n |= 1 << i
		}
	}
	return n
}

func unflag(n int64, bits ...*bool) {
	for i, b := range bits {
		*b = n&(1<<i) != 0
	}
}
