package storetest

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // calendar limits, wherever the tests run

	"github.com/sluice-go/sluice"
)

// Open is how the suite gets a store to check: a new one, or a new connection
// to a shared one. Whatever has to be cleaned up afterwards, closing the store
// too, is left to tb.Cleanup.
//
// The store's time must be what now says, which the suite moves in both
// directions. Nothing but now may make a store forget a bucket, so expiry by a
// server's own clock has to be off or long.
type Open func(tb testing.TB, now func() time.Time) sluice.Store

// Config tunes the suite. Its zero value is right for a store in this
// process.
type Config struct {
	// Steps is how many random operations are compared with the model, over
	// all checks together. 0 means 20000. A store behind a network does with
	// fewer.
	Steps int

	// Seed makes the random checks do what they did before: a failure names
	// the seed it had. 0 means another one each time.
	Seed uint64
}

// Check is one thing that a store must get right.
type Check struct {
	Name string

	// Needs is what a store must be capable of for the check to make sense.
	Needs sluice.Capabilities

	// Run checks the stores that open gives, and answers what is wrong with
	// them. It opens each with a namespace of its own, so that they may share
	// a server.
	Run func(tb testing.TB, open Open) error
}

// Run checks a store with the zero [Config].
func Run(t *testing.T, open Open) {
	t.Helper()
	Config{}.Run(t, open)
}

// Run runs every check that the store is capable of as a subtest, and logs
// the names of the others.
func (config Config) Run(t *testing.T, open Open) {
	t.Helper()
	can := open(t, newClock(epoch).now).Capabilities()
	for _, c := range config.Checks() {
		if !can.Has(c.Needs) {
			t.Logf("left out, for the store cannot do it: %s", c.Name)
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t, open); err != nil {
				t.Error(err)
			}
		})
	}
}

// Checks are all checks, in an order in which the simplest come first.
func (config Config) Checks() []Check {
	if config.Steps == 0 {
		config.Steps = 20_000
	}
	if config.Seed == 0 {
		config.Seed = mathrand.Uint64()
	}
	return slices.Concat(
		bucketSteps(),
		windowSteps(),
		takeSteps(),
		changeSteps(),
		leaseSteps(),
		waitSteps(),
		holdSteps(),
		stillSteps(),
		contractChecks(),
		trapChecks(),
		config.randomChecks(),
		concurrentChecks(),
	)
}

// stage is a store under check, with its clock and a namespace that no other
// check uses.
type stage struct {
	tb        testing.TB
	clock     *clock
	store     sluice.Store
	limiter   *sluice.Limiter
	namespace string
}

func newStage(tb testing.TB, open Open, start time.Time) *stage {
	c := newClock(start)
	store := open(tb, c.now)
	return &stage{
		tb: tb, clock: c, store: store, limiter: sluice.New(store),
		namespace: "check-" + rand.Text(),
	}
}

// id is a request id that no other check uses.
func (s *stage) id(name string) string { return s.namespace + "/" + name }

// key is the bucket of that name: the name of its limit, with that of its
// entity and a slash before it if it is not alice's.
func (s *stage) key(name string) sluice.Key {
	entity, limit, ok := strings.Cut(name, "/")
	if !ok {
		entity, limit = "alice", name
	}
	return sluice.Key{Namespace: s.namespace, Entity: entity, Resource: "api", Limit: limit}
}

// demand is a demand of some tokens of the bucket of that name.
func (s *stage) demand(name string, limit string, tokens float64) sluice.Demand {
	return sluice.Demand{Key: s.key(name), Limit: sluice.MustParse(limit), Cost: sluice.Thousandths(amount(tokens))}
}

func amount(tokens float64) int64 {
	if tokens < 0 {
		return -amount(-tokens)
	}
	return int64(tokens*float64(sluice.Token) + 0.5)
}

// expect is an error unless got is want.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
