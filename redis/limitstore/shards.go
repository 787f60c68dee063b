package limitstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
)

const slots = 16384

// shardOf has the shard of every slot: the lowest slot that is served together
// with it. A failover does not change it.
type shardOf [slots]uint16

// Sharded reports whether the store is in shards that can fail one by one.
func (s *Store) Sharded() bool { return s.db.Cluster }

// ShardOf returns a number for the shard that a bucket is in.
func (s *Store) ShardOf(k sluice.Key) int { return s.shard(recordKey(&k)) }

// ShardOfID returns a number for the shard that a lease or a request id is in.
func (s *Store) ShardOfID(id string) int { return s.shard(receiptKey(id)) }

func (s *Store) shard(key string) int {
	shards := s.shards.Load()
	if shards == nil {
		return 0
	}
	return int(shards[slot(key)])
}

const shardsEvery = 5 * time.Second

// watchShards follows which slots are served together.
func (s *Store) watchShards() {
	ctx := s.db.Life()
	ticker := time.NewTicker(shardsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.findShards(ctx) //nolint:errcheck // then they are as they were
		case <-ctx.Done():
			return
		}
	}
}

// findShards asks any node that answers.
func (s *Store) findShards(ctx context.Context) error {
	var err error
	for _, node := range s.db.Client.Nodes() {
		ask, cancel := context.WithTimeout(ctx, s.db.Config.Timeout)
		var ranges []rueidis.RedisMessage
		ranges, err = node.Do(ask, node.B().ClusterSlots().Build()).ToArray()
		cancel()
		if err != nil {
			continue
		}
		var shards *shardOf
		if shards, err = readShards(ranges); err == nil {
			s.shards.Store(shards)
			return nil
		}
	}
	return err
}

// readShards reads the reply to CLUSTER SLOTS: of each range its first and last
// slot, and then its nodes, the primary first, with address, port and id.
func readShards(ranges []rueidis.RedisMessage) (*shardOf, error) {
	shards, lowest := &shardOf{}, map[string]uint16{}
	type span struct {
		from, to int64
		primary  string
	}
	spans := make([]span, len(ranges))
	for i, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			return nil, errReply
		}
		from, err1 := fields[0].AsInt64()
		to, err2 := fields[1].AsInt64()
		node, err3 := fields[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(node) < 3 || from < 0 || to < from || to >= slots {
			return nil, errReply
		}
		id, err := node[2].ToString()
		if err != nil {
			return nil, errReply
		}
		spans[i] = span{from, to, id}
		if low, ok := lowest[id]; !ok || uint16(from) < low {
			lowest[id] = uint16(from)
		}
	}
	for _, s := range spans {
		for i := s.from; i <= s.to; i++ {
			shards[i] = lowest[s.primary]
		}
	}
	return shards, nil
}

// slot returns the slot of a key: the CRC-16 of its hash tag.
func slot(key string) uint16 {
	if from := strings.IndexByte(key, '{'); from >= 0 {
		if to := strings.IndexByte(key[from+1:], '}'); to > 0 {
			key = key[from+1 : from+1+to]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}
