package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice"
)

// Store is a [sluice.Store] on Redis. It is safe for concurrent use.
type Store struct {
	config   Config
	client   rueidis.Client
	cluster  bool
	limits   limits
	combiner combiner
	deadline deadline
	calls    *underWay
	skew     atomic.Int64 // of the server's clock to ours, in microseconds
	clocks   clocks

	clock sync.Mutex // of tests

	closed atomic.Bool
	stop   context.CancelFunc // ends what goes on in the background
	life   context.Context
	wg     sync.WaitGroup
}

var (
	_ sluice.Store = (*Store)(nil)
)

// Open connects to Redis. It fails if the address is wrong or nobody is there;
// later on, the store reconnects by itself.
func Open(ctx context.Context, config Config) (*Store, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	options, cluster, err := parseAddress(config.Address, config.TLS)
	if err != nil {
		return nil, fmt.Errorf("redis: address: %w", err)
	}
	tune(&options, &config)
	calls := &underWay{}
	options.DialCtxFn = calls.dial
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("redis: %w: %w", sluice.ErrUnavailable, err)
	}
	s := &Store{config: config, client: client, cluster: cluster, calls: calls}
	s.combiner.start(cluster)
	s.life, s.stop = context.WithCancel(context.Background())
	if err := s.prepare(ctx); err != nil {
		s.Close() //nolint:errcheck // it never fails
		return nil, err
	}
	if config.Now == nil {
		s.wg.Go(s.watchClocks)
	}
	return s, nil
}

// Close ends all connections. Calls under way may not get their answers.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.client.Close()
	s.wg.Wait()
	return nil
}

// Capabilities are all there are.
func (s *Store) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// ready says whether the store can be used at all.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("redis store: %w", sluice.ErrClosed)
	}
	return ctx.Err()
}
