package holding

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"

	"github.com/sluice-go/sluice/bench/keys"
)

// scenario is a kind of traffic and the limits it meets.
type scenario struct {
	name  string
	title string
	rules []rule // all in one take
	keys  int    // how many there are in the full run
	draw  func(n, length int, seed uint64) keys.Sequence

	// pace is how many takes a second all processes make together, evenly
	// and whatever the answers. 0: each caller asks again once it is answered.
	pace int

	// warm has each process ask once for every key before it starts.
	warm bool
}

// rule is one of the limits of a take.
type rule struct {
	name  string
	limit sluice.Limit
	of    subject
}

// subject says whose tokens a rule is about.
type subject int

const (
	theKey subject = iota
	everybody
	theAddress
)

// entity is the name of the bucket.
func (s subject) entity(key, address string) string {
	switch s {
	case everybody:
		return "everybody"
	case theAddress:
		return address
	default:
		return key
	}
}

// addresses is how many the callers come from.
const addresses = 2000

func perKey(l sluice.Limit) []rule { return []rule{{"", l, theKey}} }

var (
	under = scenario{name: "under", title: "10 k keys under their limits",
		rules: perKey(sluice.Per(10_000, time.Second).WithBurst(20_000)), keys: 10_000, draw: keys.Zipf}

	many = scenario{name: "many", title: "100 k keys under their limits",
		rules: under.rules, keys: 100_000, draw: keys.Zipf}

	overload = scenario{name: "overload", title: "10 k keys, overload",
		rules: perKey(sluice.Per(100, time.Second).WithBurst(200)), keys: 10_000, draw: keys.Zipf}

	// All keys are asked alike, or the cold ones would not be saturated.
	small = scenario{name: "small", title: "small limits, saturated",
		rules: perKey(sluice.Per(10, time.Minute).WithBurst(10)), keys: 10_000, draw: keys.Uniform}

	// The limit of everybody is what most takes meet; that of the key refuses
	// the hot ones.
	three = scenario{name: "three", title: "three limits in one take, saturated", rules: []rule{
		{"global", sluice.Per(2000, time.Second).WithBurst(4000), everybody},
		{"key", sluice.Per(100, time.Second).WithBurst(200), theKey},
		{"address", sluice.Per(50, time.Second).WithBurst(100), theAddress},
	}, keys: 10_000, draw: keys.Zipf}

	// The hottest keys are asked for more than they have.
	drained = scenario{name: "drained", title: "latency with renewals, hot keys drained",
		rules: under.rules, keys: 10_000, draw: keys.Zipf, warm: true}

	// Holds last for a moment, and there is always more.
	renewing = scenario{name: "renewing", title: "latency with renewals",
		rules: perKey(sluice.Per(1_000_000, time.Second).WithBurst(200_000)), keys: 10_000, draw: keys.Zipf, warm: true}

	// What is held at first sight lasts for longer than the run.
	resting = scenario{name: "resting", title: "latency without renewals",
		rules: perKey(sluice.Per(1_000_000, time.Second).WithBurst(1_000_000_000)), keys: 10_000, draw: keys.Zipf, warm: true}

	near = scenario{name: "near", title: "demand just below the limit",
		rules: perKey(sluice.Per(1000, time.Second).WithBurst(1000)), keys: 1, draw: keys.Uniform, pace: 950}
)

var scenarios = []*scenario{&under, &many, &overload, &small, &three, &resting, &renewing, &drained, &near}

func scenarioOf(name string) (*scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no scenario is called %q", name)
}

// allowance is how many whole tokens a bucket may let pass in a time that
// starts with it full.
func allowance(l sluice.Limit, d time.Duration) int64 {
	amount, period := l.Rate()
	return l.Capacity().Add(sluice.Thousandths(d.Microseconds() * amount / period)).Whole()
}
