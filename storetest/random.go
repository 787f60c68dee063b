package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// profile is what kind of random operations a check does.
type profile struct {
	name   string
	share  int // of all steps, in percent
	needs  sluice.Capabilities
	limits []string // of the buckets, and what they change to
	change int      // how many in a hundred operations use another limit
	verbs  []verb   // each as often as it is named
	back   bool     // the clock is sometimes put back
	waits  bool     // some takes have tickets
}

// verb makes an operation.
type verb func(*player) move

// move is an operation that can be done to a store and to the model alike.
type move struct {
	text string
	keys []sluice.Key // that it names
	ids  []string
	take *sluice.Take // with an id
	do   func(*sluice.Limiter, sluice.Store) outcome
}

func (config Config) randomChecks() []Check {
	tokens := []string{tenPer, "100/minute", "7/3s burst 5", "3/7us burst 4", "0.5/s", "1000/day burst 10", "10/s burst 50"}
	fixed := []string{"10/minute fixed", "20/s fixed", "25/minute fixed", "30/day Europe/Madrid", "50/month UTC"}
	sliding := []string{"10/s sliding", "12/s sliding", "25/minute sliding", "5/1ms sliding"}
	concurrent := []string{"2 concurrent", "3 concurrent"}
	asking := []verb{take1, take1, takeSome, takeSome, peekSome, adjustSome, resetSome}
	leases := append([]verb{leaseSome, leaseSome, leaseSome, onceSome, onceSome, onceSome, settleSome, settleSome, settleSome, settleSome}, asking...)
	holding := append([]verb{holdSome, holdSome, holdSome, returnSome, returnSome}, asking...)

	profiles := []profile{
		{name: "token buckets", share: 15, limits: tokens, verbs: asking},
		{name: "fixed windows", share: 10, limits: fixed, verbs: asking},
		{name: "sliding windows", share: 10, needs: sluice.CanWindow, limits: sliding, verbs: asking},
		{name: "changing limits", share: 10, limits: join(tokens, fixed), change: 25, verbs: asking},
		{name: "leases", share: 15, needs: sluice.CanLease, limits: join(tokens, fixed, concurrent, concurrent), change: 3, verbs: leases},
		{name: "holds", share: 15, needs: sluice.CanHold, limits: join(tokens, fixed), change: 3, verbs: holding},
		{name: "the clock goes back", share: 10, limits: join(tokens, fixed), verbs: asking, back: true},
		{name: "waiting", share: 10, limits: join(tokens, tokens, fixed), change: 3, waits: true, verbs: join(asking, []verb{leaveSome})},
		{name: "everything", share: 15, waits: true, needs: sluice.CanWindow | sluice.CanLease | sluice.CanHold, limits: join(tokens, fixed, sliding, concurrent), change: 8, verbs: join(leases, holding, []verb{leaveSome})},
	}
	all := make([]Check, len(profiles))
	for i, p := range profiles {
		all[i] = Check{Name: "random: " + p.name, Needs: p.needs, Run: func(tb testing.TB, open Open) error {
			return p.run(tb, open, config.Seed, uint64(i)<<32, config.Steps*p.share/100)
		}}
	}
	return all
}

func join[T any](lists ...[]T) (all []T) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// sequence is how many operations are done to one store before another one,
// empty, is opened.
const sequence = 250

// run does steps operations, with random numbers of its own for each sequence:
// those of the seed from first on.
func (p *profile) run(tb testing.TB, open Open, seed, first uint64, steps int) error {
	for n := uint64(0); steps > 0; n++ {
		pl := newPlayer(tb, open, p, rand.New(rand.NewPCG(seed, first+n)))
		for i := range min(steps, sequence) {
			if err := pl.step(); err != nil {
				return fmt.Errorf("seed %d, sequence %d, step %d: %w\nthe last operations:\n%s",
					seed, n, i, err, strings.Join(pl.log, "\n"))
			}
		}
		steps -= sequence
	}
	return nil
}

// player does the same to a store and to the model.
type player struct {
	*stage
	*rand.Rand
	profile *profile
	can     sluice.Capabilities

	model        *Model
	modelLimiter *sluice.Limiter

	keys   []sluice.Key
	limits map[sluice.Key]sluice.Limit // what most operations on the key use
	takes  []sluice.Take               // those with an id, to repeat and to settle
	holds  []sluice.HoldReturn         // those granted
	seq    uint64                      // of ids and holds

	lastSettled sluice.Settlement

	last outcome // whose waits and amounts are worth trying

	log []string
}

func newPlayer(tb testing.TB, open Open, p *profile, r *rand.Rand) *player {
	start := epoch.Add(time.Duration(r.Int64N(int64(400*24*time.Hour))) / 1000 * 1000)
	s := newStage(tb, open, start)
	model := NewModel(s.clock.now)
	pl := &player{
		stage: s, Rand: r, profile: p, can: s.store.Capabilities(),
		model: model, modelLimiter: sluice.New(model),
		limits: map[sluice.Key]sluice.Limit{},
	}
	for _, name := range []string{"alice/a", "alice/b", "alice/c", "bob/a", "bob/b"} {
		k := pl.key(name)
		pl.keys = append(pl.keys, k)
		pl.limits[k] = pl.anyLimit()
	}
	return pl
}

func (p *player) step() error {
	p.moveClock()
	m := p.profile.verbs[p.IntN(len(p.profile.verbs))](p)
	if p.clock.behind() && p.forgettable(&m) {
		p.clock.catchUp()
	}
	p.log = append(p.log, fmt.Sprintf("%d %s", p.clock.now().UnixMicro(), m.text))
	if len(p.log) > 15 {
		p.log = p.log[1:]
	}
	got, want := m.do(p.limiter, p.store), m.do(p.modelLimiter, p.model)
	if err := got.differs(&want, p.clock); err != nil {
		return err
	}
	p.last = want
	if m.take != nil && want.err == nil && (want.decision.Allowed || p.chance(20)) {
		p.takes = append(p.takes, *m.take)
	}
	if p.can.Has(sluice.CanList) && !p.clock.behind() {
		return p.compareLists()
	}
	return nil
}

// moveClock lets some time pass, often none, and often just enough for
// something to become possible, or a microsecond less or more.
func (p *player) moveClock() {
	d := time.Duration(0)
	switch n := p.IntN(200); {
	case n < 80:
	case n < 120:
		d = p.interestingWait() + time.Duration(p.IntN(3)-1)*time.Microsecond
	case n < 140:
		d = time.Duration(p.IntN(10)) * time.Microsecond
	case n < 165:
		d = p.upTo(5 * time.Millisecond)
	case n < 188:
		d = p.upTo(3 * time.Second)
	case n < 197:
		d = p.upTo(2 * time.Minute)
	case n < 199:
		d = p.upTo(3 * time.Hour)
	default:
		d = p.upTo(40 * 24 * time.Hour)
	}
	if p.profile.back && p.IntN(4) == 0 {
		d = -p.upTo([]time.Duration{10 * time.Microsecond, 5 * time.Second, time.Hour}[p.IntN(3)])
	}
	p.clock.advance(max(d, -time.Hour))
}

func (p *player) upTo(d time.Duration) time.Duration {
	return time.Duration(p.Int64N(int64(d/time.Microsecond))) * time.Microsecond
}

// interestingWait is one that the last answer spoke of.
func (p *player) interestingWait() time.Duration {
	d := p.last.decision
	if d == nil || len(d.Results) == 0 {
		return time.Microsecond
	}
	r := &d.Results[p.IntN(len(d.Results))]
	wait := []time.Duration{r.RetryAfter, r.ResetAfter, r.LatestAfter}[p.IntN(3)]
	if wait > 10*time.Second && !p.chance(15) || wait > 60*24*time.Hour {
		wait = 0
	}
	return max(wait, time.Microsecond)
}

// forgettable reports whether the move is about something that a store may
// have forgotten while the clock was ahead: then the answer depends on whether
// it has, and the clock has to catch up first.
func (p *player) forgettable(m *move) bool {
	latest := p.clock.latest.Load()
	for _, id := range m.ids {
		r := p.model.receipts[id]
		if r == nil {
			continue
		}
		if r.expires <= latest {
			return true
		}
		for i := range r.take.Demands {
			if e := p.model.buckets[r.take.Demands[i].Key]; e != nil && e.absent(latest) {
				return true
			}
		}
	}
	for _, k := range m.keys {
		if e := p.model.buckets[k]; e != nil && e.absent(latest) {
			return true
		}
	}
	return false
}
