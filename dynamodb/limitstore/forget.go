package limitstore

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
)

// Forget removes leases and request ids, and items whose buckets are all full. No
// index knows which entities a receipt names, so the table is read, a megabyte in each
// call.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (next string, err error) {
	if err := s.db.Ready(ctx); err != nil {
		return "", err
	}
	at, err := parseCursor(f.Cursor)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*s.db.Config.Timeout)
	defer cancel()
	var all found
	if err := s.scan(ctx, "", at.Before, &all); err != nil {
		return "", err
	}
	now := s.now()
	for _, i := range all.items {
		if !forgets(&f, i.item, now) {
			continue
		}
		if err := s.remove(ctx, i.item); err != nil {
			return "", err
		}
	}
	if all.next == nil {
		return "", nil
	}
	return cursor{Before: all.next}.String(), nil
}

// forgets reports whether an item is to be removed.
func forgets(f *sluice.Forgetting, raw dynamodb.Item, now int64) bool {
	key := dynamodb.KeyOf(raw)
	if sub, ok := parseSubject(key); ok {
		k := sub.limit("")
		if !f.Names(&k) {
			return false
		}
		it := readItem(sub, raw)
		for _, r := range it.records {
			if r.damaged == nil && !r.absent(now) {
				return false
			}
		}
		return true
	}
	if key.SK != receiptSK {
		return false
	}
	r := readReceipt("", raw)
	return r.receipt != nil && slices.ContainsFunc(r.demands, func(d sluice.Demand) bool { return f.Names(&d.Key) })
}

// remove removes an item, unless it has changed since.
func (s *Store) remove(ctx context.Context, raw dynamodb.Item) error {
	version, _ := dynamodb.Number(raw[versionAttribute])
	err := s.db.Write(ctx, func(ctx context.Context) error {
		_, err := s.db.Client.DeleteItem(ctx, &sdk.DeleteItemInput{TableName: s.db.Table, Key: dynamodb.KeyOf(raw).Item(),
			ConditionExpression: aws.String(versionAttribute + " = :v"), ExpressionAttributeValues: dynamodb.Item{":v": dynamodb.N(version)}})
		return err
	})
	if errors.Is(err, dynamodb.ErrChanged) {
		return nil
	}
	return err
}
