package limitstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// Forget removes leases and request ids. They are found as a list is made: by
// SCAN, a number of steps at a time. Full buckets have expired.
func (s *Store) Forget(ctx context.Context, f sluice.Forgetting) (next string, err error) {
	if err := s.db.Ready(ctx); err != nil {
		return "", err
	}
	at, err := parseSpot(f.Cursor)
	if err != nil {
		return "", err
	}
	at, err = s.forgetFrom(ctx, &f, at)
	if err != nil {
		return "", fmt.Errorf("redis: forget: %w: %w", sluice.ErrUnavailable, redis.Error(err))
	}
	if at == (spot{}) {
		return "", nil
	}
	return at.String(), nil
}

// forgetFrom goes on at a spot, and returns where it got to.
func (s *Store) forgetFrom(ctx context.Context, f *sluice.Forgetting, at spot) (spot, error) {
	nodes, err := s.primaries(ctx, s.db.Client)
	if err != nil {
		return at, err
	}
	steps := 0
	for addr := range at.onwards(nodes) {
		for done := false; !done; done = at.Cursor == 0 {
			if steps++; steps > scanSteps {
				return at, nil
			}
			scan := nodes[addr].B().Scan().Cursor(at.Cursor).Match(redis.Prefix + "*id:*").Count(scanCount).Build()
			found, err := nodes[addr].Do(ctx, scan).AsScanEntry()
			if err != nil {
				return at, err
			}
			if err := s.forgetKeys(ctx, f, found.Elements); err != nil {
				return at, err
			}
			at.Cursor = found.Cursor
		}
	}
	return spot{}, nil
}

// forgetKeys removes the keys among some that hold a receipt which f names.
func (s *Store) forgetKeys(ctx context.Context, f *sluice.Forgetting, keys []string) error {
	var gone, gets rueidis.Commands
	unlink := func(key string) { gone = append(gone, s.db.Client.B().Unlink().Key(key).Build()) }
	var read []string
	for _, key := range keys {
		if strings.HasPrefix(key, receiptPrefix) {
			gets, read = append(gets, s.db.Client.B().Get().Key(key).Build()), append(read, key)
		} else if record, _, ok := strings.Cut(key, "}id:"); ok { // as partKey has it
			if k, ok := parseRecordKey(record + "}"); ok && f.Names(&k) {
				unlink(key)
			}
		}
	}
	for i, res := range s.db.Client.DoMulti(ctx, gets...) {
		raw, err := res.ToString()
		if rueidis.IsRedisNil(err) {
			continue // expired in between
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(recordsOf(raw), func(record string) bool {
			k, ok := parseRecordKey(record)
			return ok && f.Names(&k)
		}) {
			unlink(read[i])
		}
	}
	for _, res := range s.db.Client.DoMulti(ctx, gone...) {
		if err := res.Error(); err != nil {
			return err
		}
	}
	return nil
}

// recordsOf are the keys of the records that a receipt, see receipt.lua, or a
// directory is about, as far as it can be read.
func recordsOf(raw string) (records []string) {
	if strings.HasPrefix(raw, "{") {
		var dir directory
		if json.Unmarshal([]byte(raw), &dir) == nil {
			for _, p := range dir.Parts {
				records = append(records, string(p.Record))
			}
		}
		return records
	}
	const reply = 59 // its length, and then it
	if len(raw) < reply+4 || raw[0] != version {
		return nil
	}
	rest := scanner{s: raw[reply:]}
	rest.text(rest.length())
	for rest.s != "" {
		n, m := rest.length(), rest.length()
		records = append(records, rest.text(n))
		arg := rest.text(m)
		if len(arg) < 2 {
			return records
		}
		rest.text(16 * int(arg[1])) // what each demand consumed and costs
	}
	return records
}
