package limitstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
)

func compareKeys(a, b dynamodb.Key) int {
	return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK))
}

// change is what one call reads, decides and writes at once.
type change struct {
	now     int64
	items   map[subject]*item
	receipt *receiptItem // nil if the call is about none
	first   bool         // it was decided as if there were no receipt
	room    []sluice.Key // buckets that get more of it
}

// item returns that of a key, which is among those that were read.
func (c *change) item(k *sluice.Key) *item { return c.items[subjectOf(k)] }

// images are items as they were read last. A key without an item is absent; one that
// is not in it has to be read.
type images map[dynamodb.Key]dynamodb.Item

// change reads the items of subjects, and the receipt of an id unless it is "", has
// them decided about, and writes those that were changed, if none of them has been
// changed by others meanwhile. Otherwise it decides again.
func (s *Store) change(ctx context.Context, subjects []subject, id string, decide func(*change) error) error {
	keys := make([]dynamodb.Key, 0, len(subjects)+1)
	for _, sub := range subjects {
		keys = append(keys, sub.key())
	}
	if id != "" {
		keys = append(keys, receiptKey(id))
	}
	unlock, err := s.locks.lock(ctx, keys)
	if err != nil {
		return err
	}
	defer unlock()
	seen, guessed := images{}, false
	if len(keys) == 1 {
		seen[keys[0]], guessed = s.hints.get(keys[0])
		if !guessed {
			clear(seen)
		}
	}
	return s.changeLocked(ctx, keys, subjects, id, seen, guessed, decide)
}

// changeLocked does so from images, if there are any. If they are guessed, only what is
// written is certain: the condition of the write has proved them.
func (s *Store) changeLocked(ctx context.Context, keys []dynamodb.Key, subjects []subject, id string, seen images, guessed bool, decide func(*change) error) error {
	for attempt := 1; ; attempt++ {
		if err := s.read(ctx, keys, seen); err != nil {
			return err
		}
		c := &change{items: make(map[subject]*item, len(subjects)), now: s.now()}
		for _, sub := range subjects {
			if c.items[sub] == nil {
				c.items[sub] = readItem(sub, seen[sub.key()])
			}
		}
		if id != "" {
			c.receipt = readReceipt(id, seen[receiptKey(id)])
		}
		err := decide(c)
		puts, checks := s.puts(c)
		if guessed && (err != nil || len(puts) == 0) {
			guessed = false
			clear(seen)
			continue
		}
		if err != nil {
			return err
		}
		if c.first && len(puts) == 0 {
			// No condition has proved that there was none when the items were read.
			after := images{}
			if err := s.read(ctx, keysOf(c.receipt.key), after); err != nil {
				return err
			}
			if readReceipt(id, after[c.receipt.key]).version != c.receipt.version {
				seen = after
				continue
			}
		}
		s.saw(c)
		if err = s.write(ctx, puts, checks, seen); !errors.Is(err, dynamodb.ErrChanged) {
			if err == nil {
				s.made(c)
			}
			return err
		}
		s.conflicts.Add(1)
		if !guessed && !dynamodb.Pause(ctx, attempt) {
			return fmt.Errorf("dynamodb: %w: others keep changing what this call is about", sluice.ErrUnavailable)
		}
		guessed = false
	}
}

// read reads what is not in seen.
func (s *Store) read(ctx context.Context, keys []dynamodb.Key, seen images) error {
	var missing []dynamodb.Key
	for _, k := range keys {
		if _, ok := seen[k]; !ok {
			missing = append(missing, k)
			seen[k] = nil
		}
	}
	var err error
	switch len(missing) {
	case 0:
	case 1:
		err = s.db.Read(ctx, func(ctx context.Context) error {
			out, err := s.db.Client.GetItem(ctx, &sdk.GetItemInput{TableName: s.db.Table, Key: missing[0].Item(), ConsistentRead: aws.Bool(true)})
			if err == nil {
				seen[missing[0]] = absentIfEmpty(out.Item)
			}
			return err
		})
	default:
		err = s.readMany(ctx, missing, func(item dynamodb.Item) { seen[dynamodb.KeyOf(item)] = item })
	}
	for _, k := range missing {
		if err == nil {
			s.hints.keep(k, seen[k])
		}
	}
	return err
}

func absentIfEmpty(item dynamodb.Item) dynamodb.Item {
	if len(item) == 0 {
		return nil
	}
	return item
}

// maxBatch is how many items can be read in one request.
const maxBatch = 100

// readMany reads items that differ, in no particular order.
func (s *Store) readMany(ctx context.Context, keys []dynamodb.Key, found func(dynamodb.Item)) error {
	for attempt := 1; len(keys) > 0; attempt++ {
		n := min(len(keys), maxBatch)
		wanted := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
		for _, k := range keys[:n] {
			wanted.Keys = append(wanted.Keys, k.Item())
		}
		rest := keys[n:]
		err := s.db.Read(ctx, func(ctx context.Context) error {
			out, err := s.db.Client.BatchGetItem(ctx, &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*s.db.Table: wanted}})
			if err != nil {
				return err
			}
			for _, item := range out.Responses[*s.db.Table] {
				found(item)
			}
			for _, k := range out.UnprocessedKeys[*s.db.Table].Keys {
				rest = append(rest[:len(rest):len(rest)], dynamodb.KeyOf(k))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(rest) > len(keys)-n && !dynamodb.Pause(ctx, attempt) { // it was throttled
			return fmt.Errorf("dynamodb: %w: not all items were read", sluice.ErrUnavailable)
		}
		keys = rest
	}
	return nil
}

// write writes what was changed, on the condition that nothing has been changed by
// others. If something has, seen has what is known of it then.
func (s *Store) write(ctx context.Context, puts, checks []put, seen images) (err error) {
	switch {
	case len(puts) == 0:
		return nil
	case len(puts) == 1 && len(checks) == 0:
		err = s.writeOne(ctx, puts[0], seen)
	default:
		err = s.writeAll(ctx, puts, checks, seen)
	}
	for _, p := range puts {
		if err == nil {
			s.hints.keep(p.key, p.item)
		} else {
			s.hints.drop(p.key) // it may be anything
		}
	}
	return err
}

// put is an item to be written in the place of a version.
type put struct {
	key     dynamodb.Key
	version int64
	item    dynamodb.Item // nil to check that the version is still there
}

// puts returns what is to be written, and what must not have changed.
func (s *Store) puts(c *change) (puts, checks []put) {
	for _, it := range c.items {
		if it.changed {
			puts = append(puts, put{it.key, it.version, it.write(c.now)})
		} else {
			checks = append(checks, put{it.key, it.version, nil})
		}
	}
	if r := c.receipt; r != nil {
		if r.changed {
			puts = append(puts, put{r.key, r.version, r.write()})
		} else {
			checks = append(checks, put{r.key, r.version, nil})
		}
	}
	return puts, checks
}

// condition returns that an item has a version, or is not there.
func (p *put) condition() (*string, dynamodb.Item) {
	if p.version == 0 {
		return aws.String("attribute_not_exists(" + dynamodb.PK + ")"), nil
	}
	return aws.String(versionAttribute + " = :v"), dynamodb.Item{":v": dynamodb.N(p.version)}
}

func (s *Store) writeOne(ctx context.Context, p put, seen images) error {
	condition, values := p.condition()
	err := s.db.Write(ctx, func(ctx context.Context) error {
		_, err := s.db.Client.PutItem(ctx, &sdk.PutItemInput{
			TableName: s.db.Table, Item: p.item, ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		return err
	})
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		seen[p.key] = absentIfEmpty(failed.Item)
	}
	return err
}

func (s *Store) writeAll(ctx context.Context, puts, checks []put, seen images) error {
	request := &sdk.TransactWriteItemsInput{}
	for _, p := range puts {
		condition, values := p.condition()
		request.TransactItems = append(request.TransactItems, types.TransactWriteItem{Put: &types.Put{
			TableName: s.db.Table, Item: p.item, ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	for _, p := range checks {
		condition, values := p.condition()
		request.TransactItems = append(request.TransactItems, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: s.db.Table, Key: p.key.Item(), ConditionExpression: condition, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	err := s.db.Write(ctx, func(ctx context.Context) error {
		_, err := s.db.Client.TransactWriteItems(ctx, request)
		return err
	})
	if errors.Is(err, dynamodb.ErrChanged) {
		// Of several that have changed not all need be told: read all again.
		clear(seen)
	}
	return err
}
