package limitstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// What has no fixed size is kept as bytes: numbers as varints, texts with their
// length before them.

// writer appends to b.
type writer struct{ b []byte }

func (w *writer) number(n int64)    { w.b = binary.AppendVarint(w.b, n) }
func (w *writer) unsigned(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) text(s string) {
	w.unsigned(uint64(len(s)))
	w.b = append(w.b, s...)
}

// reader takes from b. What follows a mistake is zero.
type reader struct {
	b   []byte
	err error
}

var errBytes = errors.New("its bytes make no sense")

func (r *reader) number() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errBytes
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) unsigned() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.err = nil, errBytes
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text() string {
	n := r.unsigned()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errBytes
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// count reads how many things follow, each of at least a byte.
func (r *reader) count() int {
	n := r.unsigned()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errBytes
		return 0
	}
	return int(n)
}

const binaryVersion = 1

var errVersion = errors.New("a newer version has written it")

// encodeExt writes an Ext.
func encodeExt(x *bucket.Ext) []byte {
	w := &writer{}
	w.number(binaryVersion)
	w.unsigned(uint64(len(x.Counts)))
	for _, c := range x.Counts {
		w.number(c)
	}
	w.unsigned(uint64(len(x.Holders)))
	for _, h := range x.Holders {
		w.text(h.ID)
		w.number(h.Cost)
		w.number(h.Expires)
	}
	w.unsigned(uint64(len(x.Holds)))
	for _, h := range x.Holds {
		w.unsigned(h.ID.Node)
		w.unsigned(h.ID.Seq)
		w.number(h.Amount)
		w.number(h.Expires)
	}
	w.unsigned(uint64(len(x.Tickets)))
	for _, t := range x.Tickets {
		w.unsigned(t.ID.Node)
		w.unsigned(t.ID.Seq)
		w.number(t.Rank)
		w.number(t.Cost)
		w.number(t.Expires)
	}
	w.number(x.Recalled)
	w.number(x.RecallCost)
	return w.b
}

func decodeExt(b []byte) (*bucket.Ext, error) {
	r := &reader{b: b}
	if r.number() > binaryVersion {
		return nil, errVersion
	}
	x := &bucket.Ext{}
	for range r.count() {
		x.Counts = append(x.Counts, r.number())
	}
	for range r.count() {
		x.Holders = append(x.Holders, bucket.Holder{ID: r.text(), Cost: r.number(), Expires: r.number()})
	}
	for range r.count() {
		x.Holds = append(x.Holds, bucket.Hold{ID: sluice.HoldID{Node: r.unsigned(), Seq: r.unsigned()}, Amount: r.number(), Expires: r.number()})
	}
	for range r.count() {
		x.Tickets = append(x.Tickets, bucket.Ticket{ID: sluice.HoldID{Node: r.unsigned(), Seq: r.unsigned()}, Rank: r.number(), Cost: r.number(), Expires: r.number()})
	}
	x.Recalled, x.RecallCost = r.number(), r.number()
	if len(x.Counts) != 0 && len(x.Counts) != bucket.SubWindows+1 {
		return nil, errBytes
	}
	return x, r.err
}

// encodeLimit writes a limit as text.
func encodeLimit(l sluice.Limit) string {
	return fmt.Sprintf("%d,%d,%d,%d,%d,%s", l.Algorithm, l.Amount.Thousandths(), l.Period.Microseconds(), l.Burst.Thousandths(), l.Calendar, l.Zone)
}

func decodeLimit(text string) (*bucket.Spec, error) {
	var algorithm, amount, period, burst, calendar int64
	var rest string
	if n, err := fmt.Sscanf(text+" ", "%d,%d,%d,%d,%d,", &algorithm, &amount, &period, &burst, &calendar); n < 5 {
		return nil, fmt.Errorf("limit %q: %w", text, err)
	}
	for i, commas := 0, 0; i < len(text); i++ {
		if text[i] == ',' {
			if commas++; commas == 5 {
				rest = text[i+1:]
				break
			}
		}
	}
	return bucket.Compile(sluice.Limit{
		Algorithm: sluice.Algorithm(algorithm), Amount: sluice.Thousandths(amount), Period: time.Duration(period) * time.Microsecond,
		Burst: sluice.Thousandths(burst), Calendar: sluice.Calendar(calendar), Zone: rest,
	})
}

func (w *writer) limit(l sluice.Limit) { w.text(encodeLimit(l)) }

func (r *reader) limit() (l sluice.Limit) {
	text := r.text()
	if r.err != nil {
		return l
	}
	spec, err := decodeLimit(text)
	if err != nil {
		r.err = err
		return l
	}
	return spec.Limit
}
