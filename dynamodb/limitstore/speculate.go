package limitstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
)

// A token bucket in steady use is taken from without being read: one write adds to what
// is used, as of when it was last refilled, on the condition that there is room even
// without what has been refilled since.
//
// That is exact as long as the bucket has not been full in between: refill is even, so
// taking then or now comes to the same. An idle bucket, though, is full and stays so,
// and what was taken then would be repaid by time that has refilled nothing. So the
// item keeps the moment at which the bucket is full, or a little earlier, and the write
// demands that it is not past. It demands, too, that the limit is the same, that
// nothing is held and nobody waits, and that time does not run backwards.
//
// If the condition fails, the answer has the item, from which the take is decided.

const (
	isAt   = "at" // when it was last taken from, which may be after its last refill
	isFull = "fu" // when it is full, or a little earlier; only if it can be speculated on
)

// mostConsumed is the most that a counter of consumption can have.
const mostConsumed = 1<<53 - 1

// maxSpeculated is of how many limits a take may be: an expression has at most 4 KB.
const maxSpeculated = 16

// speculation is takes of one item that are to be written without a read.
type speculation struct {
	subject
	batch []*request
	now   int64
	names []string // of the limits
	specs map[string]*bucket.Spec
	costs map[string]int64 // of all takes together
	gone  int64            // when the item may be deleted at the earliest, in seconds
}

// speculation returns what takes want of each limit together, and false if they must
// not be speculated on.
func (s *Store) speculation(sub subject, batch []*request) (*speculation, bool) {
	w := &speculation{subject: sub, batch: batch, now: s.now(), specs: map[string]*bucket.Spec{}, costs: map[string]int64{}}
	gone := w.now
	for _, r := range batch {
		if r.take.UpTo {
			return nil, false
		}
		for i := range r.take.Demands {
			dm, spec := &r.take.Demands[i], r.specs[i]
			name := dm.Key.Limit
			if before := w.specs[name]; before == nil {
				w.names = append(w.names, name)
				w.specs[name] = spec
			} else if before.Limit != spec.Limit {
				return nil, false
			}
			w.costs[name] += dm.Charge().Thousandths()
			if spec.Limit.Algorithm != sluice.TokenBucket || w.costs[name] > spec.Capacity {
				return nil, false
			}
			gone = max(gone, w.now+spec.RepayIn(0, spec.Capacity))
		}
	}
	w.gone = gone/1_000_000 + 1
	return w, len(w.names) <= maxSpeculated
}

// likely reports whether the condition holds for an item.
func (w *speculation) likely(item dynamodb.Item) bool {
	number := func(name, is string) int64 {
		n, _ := dynamodb.Number(item[attribute(name, is)])
		return n
	}
	for _, name := range w.names {
		if number(name, isUsed) > w.specs[name].Capacity-w.costs[name] || number(name, isFull) <= w.now || number(name, isAt) > w.now ||
			number(name, isConsumed) >= mostConsumed || item[attribute(name, isExt)] != nil ||
			dynamodb.Text(item[attribute(name, isLimit)]) != encodeLimit(w.specs[name].Limit) {
			return false
		}
	}
	ttl, _ := dynamodb.Number(item[dynamodb.TTL])
	return ttl > w.gone
}

// request returns the write.
func (w *speculation) request(table *string) *sdk.UpdateItemInput {
	request := &sdk.UpdateItemInput{
		TableName: table, Key: w.key().Item(),
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ExpressionAttributeNames:            map[string]string{"#ttl": dynamodb.TTL},
		ExpressionAttributeValues: dynamodb.Item{
			":now": dynamodb.N(w.now), ":one": dynamodb.N(1), ":most": dynamodb.N(mostConsumed), ":gone": dynamodb.N(w.gone)},
	}
	var set, add, conditions []string
	for i, name := range w.names {
		spec, cost := w.specs[name], w.costs[name]
		for _, is := range []string{isLimit, isUsed, isConsumed, isTotal, isExt, isAt, isFull} {
			request.ExpressionAttributeNames[fmt.Sprintf("#%s%d", is, i)] = attribute(name, is)
		}
		for is, value := range map[string]int64{"c": cost, "r": spec.Capacity - cost, "f": max(spec.RepayIn(0, cost)-1, 0)} {
			request.ExpressionAttributeValues[fmt.Sprintf(":%s%d", is, i)] = dynamodb.N(value)
		}
		request.ExpressionAttributeValues[fmt.Sprintf(":l%d", i)] = dynamodb.S(encodeLimit(spec.Limit))
		number := strings.NewReplacer("?", strconv.Itoa(i))
		set = append(set, number.Replace("#fu? = #fu? + :f?, #at? = :now"))
		add = append(add, number.Replace("#us? :c?, #tc? :c?, #lt? :c?"))
		conditions = append(conditions, number.Replace("#li? = :l? AND #us? <= :r? AND #fu? > :now AND #at? <= :now AND #tc? < :most AND attribute_not_exists(#ex?)"))
	}
	request.UpdateExpression = aws.String("SET " + strings.Join(set, ", ") + " ADD " + strings.Join(add, ", ") + ", " + versionAttribute + " :one")
	request.ConditionExpression = aws.String(strings.Join(conditions, " AND ") + " AND #ttl > :gone")
	return request
}

// speculate takes from an item without having read it, and reports whether it could.
// Otherwise seen has the item.
func (s *Store) speculate(ctx context.Context, w *speculation, seen images) (done bool, err error) {
	var after dynamodb.Item
	err = s.db.Write(ctx, func(ctx context.Context) error {
		out, err := s.db.Client.UpdateItem(ctx, w.request(s.db.Table))
		if err == nil {
			after = out.Attributes
		}
		return err
	})
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		seen[w.key()] = absentIfEmpty(failed.Item)
		s.missed.Add(1)
		return false, nil
	}
	if err != nil {
		s.hints.drop(w.key())
		return false, err
	}
	s.hints.keep(w.key(), after)
	s.speculated.Add(1)
	// What it was like before, and then one take after the other.
	c := &change{now: w.now, items: map[subject]*item{w.subject: readItem(w.subject, after)}}
	for name, r := range c.items[w.subject].records {
		r.state.Used -= w.costs[name]
		r.state.Consumed -= w.costs[name]
	}
	for _, r := range w.batch {
		_, r.err = c.take(&r.take, r.specs, &r.d)
	}
	return true, nil
}
