package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
)

// The sides that are compared.
const (
	held      = "Sluice, holding"
	exact     = "Sluice, exact takes"
	redisRate = "redis_rate"
)

// verdict is the answer to one take.
type verdict struct {
	allowed bool
	held    bool // decided with held tokens
	local   bool // decided without the store
}

// ask makes one take. Each caller has one of its own, with its buffers.
type ask func(key, address string) (verdict, error)

// side is one of them, ready in this process.
type side struct {
	caller func() ask
	stats  func() advance.Stats
	close  func() error
}

func open(name, address string, s *scenario, callers int) (*side, error) {
	switch name {
	case redisRate:
		return openRedisRate(address, s, callers)
	case held, exact:
		return openSluice(address, s, name == held)
	}
	return nil, fmt.Errorf("no side is called %q", name)
}

func openSluice(address string, s *scenario, ahead bool) (*side, error) {
	// The machine has to serve everybody at once, so answers may be late.
	inner, err := limitstore.Open(context.Background(), redis.Config{Address: "redis://" + address, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	if !ahead {
		return &side{sluiceCaller(inner, s), func() advance.Stats { return advance.Stats{} }, inner.Close}, nil
	}
	store, err := advance.New(inner, advance.Config{})
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return &side{sluiceCaller(store, s), store.Stats, store.Close}, nil
}

func sluiceCaller(store sluice.Store, s *scenario) func() ask {
	limiter := sluice.New(store)
	ctx := context.Background()
	return func() ask {
		t, d := &sluice.Take{}, &sluice.Decision{}
		for _, r := range s.rules {
			t.Demands = append(t.Demands, sluice.Demand{Key: sluice.Key{Limit: r.name}, Limit: r.limit})
		}
		return func(key, address string) (verdict, error) {
			for i := range t.Demands {
				t.Demands[i].Key.Entity = s.rules[i].of.entity(key, address)
			}
			err := limiter.Decide(ctx, t, d)
			return verdict{d.Allowed, d.Source == sluice.FromHeld, d.Source != sluice.FromStore}, err
		}
	}
}

// openRedisRate gives each caller a connection, so that nobody waits for one.
func openRedisRate(address string, s *scenario, callers int) (*side, error) {
	if len(s.rules) != 1 {
		return nil, errors.New("redis_rate cannot take from several limits at once")
	}
	client := goredis.NewClient(&goredis.Options{
		Addr: address, PoolSize: callers, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	})
	limiter := redis_rate.NewLimiter(client)
	l := s.rules[0].limit
	rule := redis_rate.Limit{Rate: int(l.Amount.Whole()), Period: l.Period, Burst: int(l.Capacity().Whole())}
	ctx := context.Background()
	take := func(key, _ string) (verdict, error) {
		r, err := limiter.Allow(ctx, key, rule)
		if err != nil {
			return verdict{}, err
		}
		return verdict{allowed: r.Allowed > 0}, nil
	}
	return &side{func() ask { return take }, func() advance.Stats { return advance.Stats{} }, client.Close}, nil
}
