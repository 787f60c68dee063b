package limitstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// How a settlement is meant, as in settle.lua.
const (
	asAsked = iota
	undo
)

// Settle changes or closes a lease.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	if s.db.Cluster {
		return s.settleInCluster(ctx, st, d)
	}
	reply, err := s.settle(ctx, &request{keys: []string{receiptKey(st.ID)}}, st, asAsked)
	if err != nil {
		return err
	}
	demands, results, err := readSettled(reply)
	if err != nil {
		return err
	}
	at, taken := timesSettled(reply)
	conclude(d, st.ID, at, taken, demands, results)
	return nil
}

func conclude(d *sluice.Decision, id string, at, taken int64, demands []sluice.Demand, results []sluice.Result) {
	*d = sluice.Decision{
		Allowed: true, Source: sluice.FromStore, ID: id, Time: time.UnixMicro(at), Taken: time.UnixMicro(taken),
		Demands: demands, Results: append(d.Results[:0], results...),
	}
	d.Conclude()
}

// settle settles the lease whose receipt is r's first key. If the script needs
// the windows of a calendar limit, which stands in the receipt only, it says so
// and is called again with them.
func (s *Store) settle(ctx context.Context, r *request, st *sluice.Settlement, how byte) (string, error) {
	b := append(header(settlement), byte(st.Action))
	b = append(appendNumber(b, st.Keep.Microseconds()), how)
	for _, c := range st.Costs {
		r.args = append(r.args, string(appendNumber(nil, c.Cost.Thousandths()))+c.Limit)
	}
	var reply string
	err := s.withWindows(func(int64) error {
		var err error
		if reply, err = s.call(ctx, string(b), r); err != nil {
			return err
		}
		if len(reply) < answerSize {
			return errReply
		}
		err = settleError(reply, r, st)
		var w *windowError
		if errors.As(err, &w) {
			l, _ := readLimit(w.limit)
			c, err := s.limits.get(l)
			if err != nil {
				return err
			}
			r.args = append(r.args, string(c.around(w.time).appendTo(appendNumber(nil, -1)))+w.limit)
		}
		return err
	})
	return reply, err
}

// settleError is what a status that is no success means, or nil.
func settleError(reply string, r *request, st *sluice.Settlement) error {
	if reply[0] != noLimit && reply[0] != fixedCost {
		return statusError(reply, r)
	}
	limit := ""
	if i := readNumber(reply[9:]); i >= 0 && int(i) < len(st.Costs) {
		limit = st.Costs[i].Limit
	}
	return bucket.LeaseCostError(limit, reply[0] == fixedCost)
}

// timesSettled are the times of a settlement, and of the take that it is of.
func timesSettled(reply string) (at, taken int64) {
	return readNumber(reply[1:]), readNumber(reply[answerSize:])
}

// readSettled reads the demands and results of a settlement: when the lease was
// taken, the keys and arguments that it was taken with, and then for each demand
// its result, what the lease costs, and the limit that its bucket has now.
func readSettled(reply string) (demands []sluice.Demand, results []sluice.Result, err error) {
	rest := scanner{s: reply[answerSize:]}
	if rest.text(8) == "" {
		return nil, nil, errReply
	}
	var order []int
	for range readNumber(reply[9:]) {
		n, m := rest.length(), rest.length()
		key, ok := parseRecordKey(rest.text(n))
		if !ok {
			return nil, nil, errReply
		}
		arg := rest.text(m)
		if demands, ok = readArg(arg, key, demands); !ok {
			return nil, nil, errReply
		}
		for i := len(arg) - int(arg[1]); i < len(arg); i++ {
			order = append(order, int(arg[i]))
		}
	}
	for i := range demands {
		var res sluice.Result
		s := rest.text(resultSize + moreSize)
		if s == "" {
			return nil, nil, errReply
		}
		readResult(s, &res)
		readMore(s[resultSize:], &res)
		results = append(results, res)
		demands[i].Cost = sluice.Thousandths(rest.number())
		limit, ok := readLimit(rest.text(rest.small()))
		if !ok {
			return nil, nil, errReply
		}
		demands[i].Limit = limit
	}
	return asTaken(demands, order), asTaken(results, order), nil
}

// asTaken puts what a lease was taken with back in order.
func asTaken[T any](from []T, order []int) []T {
	to := make([]T, len(from))
	for i, n := range order {
		if n < len(to) {
			to[n] = from[i]
		}
	}
	return to
}

// readArg reads the demands of an argument that addArg wrote.
func readArg(arg string, key sluice.Key, demands []sluice.Demand) ([]sluice.Demand, bool) {
	if len(arg) < 2 {
		return nil, false
	}
	n := int(arg[1])
	rest := scanner{s: arg[2:]}
	demands = slices.Grow(demands, n)
	first := len(demands)
	for range n {
		flags, meta := rest.small(), rest.small()
		d := sluice.Demand{Key: key, Shadow: flags&shadow != 0, CountRefused: flags&countRefused != 0}
		readMeta(byte(meta), &d)
		demands = append(demands, d)
	}
	rest.text(8) // the digest
	for i := range n {
		demands[first+i].Cost = sluice.Thousandths(rest.number())
	}
	ok := rest.limits(n, func(i int, limit sluice.Limit, name string) {
		demands[first+i].Limit, demands[first+i].Key.Limit = limit, name
	})
	return demands, ok
}

// scanner reads a string from the front. What is not there is empty or 0.
type scanner struct {
	s     string
	short bool // something was not there
}

func (s *scanner) text(n int) string {
	if n > len(s.s) {
		s.s, s.short = "", true
		return ""
	}
	t := s.s[:n]
	s.s = s.s[n:]
	return t
}

// limits reads n limits and the names that go with them.
func (s *scanner) limits(n int, found func(i int, limit sluice.Limit, name string)) bool {
	numbers, more := scanner{s: s.text(n * numbersSize)}, scanner{s: s.text(n * (limitSize - numbersSize))}
	for i := range n {
		a, b := s.small(), s.small()
		limit, ok := readLimit(numbers.text(numbersSize) + more.text(limitSize-numbersSize) + s.text(a))
		if !ok {
			return false
		}
		found(i, limit, strings.Clone(s.text(b)))
	}
	return true
}

func (s *scanner) small() int {
	t := s.text(1)
	if t == "" {
		return 0
	}
	return int(t[0])
}

func (s *scanner) length() int {
	t := s.text(4)
	if t == "" {
		return 0
	}
	return int(t[0]) | int(t[1])<<8 | int(t[2])<<16 | int(t[3])<<24
}

func (s *scanner) number() int64 {
	t := s.text(8)
	if t == "" {
		return 0
	}
	return readNumber(t)
}
