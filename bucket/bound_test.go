package bucket_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// The bound, checked as it is promised: on every interval of every history,
// by adding up what happened in it. A history is a few dozen steps, so that
// all its intervals can be looked at; there are many of them.

type happening struct{ t, net int64 } // net consumption: refunds are negative

// trial plays one history on one bucket, as several nodes would that share it.
type trial struct {
	t       testing.TB
	r       *rand.Rand
	specs   []*bucket.Spec // the limit changes between these
	spec    *bucket.Spec
	state   bucket.State
	now     int64
	history []happening
	nodes   []*nodeHold
}

// nodeHold is a hold in the hands of a node, which may spend it until it
// expires.
type nodeHold struct {
	id                     sluice.HoldID
	amount, spent, expires int64
}

// happened notes what was consumed at t. A clock that went back within a
// window does not take the bucket back with it.
func (tr *trial) happened(t, net int64) {
	tr.history = append(tr.history, happening{max(t, tr.last()), net})
}

func (tr *trial) last() int64 {
	if n := len(tr.history); n > 0 {
		return tr.history[n-1].t
	}
	return 0
}

// step does one random thing.
func (tr *trial) step() {
	r, s := tr.r, &tr.state
	tr.now += tr.pause()
	now := tr.now
	p := tr.spec
	if r.IntN(10) == 0 {
		// A clock behind what the bucket already knows. It does not know of
		// what a node spent since, nor of the time when it was last idle.
		switch {
		case p.Limit.Algorithm == sluice.TokenBucket && s.Time == tr.last():
			now = s.Time - r.Int64N(100)
		case p.Limit.Algorithm == sluice.FixedWindow, p.Limit.Algorithm == sluice.SlidingWindow && len(tr.specs) == 1:
			now -= r.Int64N(100)
		}
	}
	v := p.View(s, now)
	amount := 1 + r.Int64N(p.Capacity)
	if r.IntN(3) == 0 {
		amount = min(amount, 1+r.Int64N(4))
	}
	switch r.IntN(14) {
	case 0, 1, 2, 3, 4, 5:
		if amount <= v.Available() {
			tr.happened(v.Now, p.Take(s, v, amount))
		}
	case 6: // everything there is
		if n := v.Available(); n > 0 {
			tr.happened(v.Now, p.Take(s, v, n))
		}
	case 7:
		if n := p.Refund(s, v, amount, v.Now-r.Int64N(300)); n > 0 {
			tr.happened(v.Now, -n)
		}
	case 8:
		tr.hold(v, amount)
	case 9, 10:
		tr.spend()
	case 11:
		tr.giveBack(v)
	case 12:
		if next := tr.specs[r.IntN(len(tr.specs))]; next != p {
			next.Adopt(s, p, now)
			tr.spec = next
		}
	case 13:
		if amount > v.Available() {
			p.Recall(s, v, amount)
		}
	}
}

// pause is mostly the time of a few tokens, and sometimes a long one.
func (tr *trial) pause() int64 {
	switch tr.r.IntN(8) {
	case 0, 1, 2:
		return 0
	case 3:
		return tr.r.Int64N(400)
	}
	return tr.r.Int64N(20)
}

func (tr *trial) hold(v bucket.View, amount int64) {
	n := tr.spec.Grantable(&tr.state, v, 1, amount)
	if n == 0 {
		return
	}
	id := sluice.HoldID{Node: 1, Seq: tr.r.Uint64()}
	expires := tr.spec.Hold(&tr.state, v, bucket.Hold{ID: id, Amount: n, Expires: v.Now + 1 + tr.r.Int64N(150)})
	tr.nodes = append(tr.nodes, &nodeHold{id: id, amount: n, expires: expires})
}

// spend lets a node use some of what it holds, without telling the bucket.
func (tr *trial) spend() {
	if len(tr.nodes) == 0 {
		return
	}
	h := tr.nodes[tr.r.IntN(len(tr.nodes))]
	if left := h.amount - h.spent; left > 0 && tr.now < h.expires {
		n := 1 + tr.r.Int64N(left)
		h.spent += n
		tr.happened(tr.now, n)
	}
}

// giveBack returns a hold; now and then once more, which must change nothing.
func (tr *trial) giveBack(v bucket.View) {
	if len(tr.nodes) == 0 {
		return
	}
	i := tr.r.IntN(len(tr.nodes))
	h := tr.nodes[i]
	tr.spec.Return(&tr.state, v, h.id, h.spent)
	h.amount = h.spent // spends no more
	if tr.r.IntN(4) > 0 {
		tr.nodes = append(tr.nodes[:i], tr.nodes[i+1:]...)
	}
}

// trials plays histories until boundSteps are done, and checks each.
func trials(t *testing.T, variants func(*rand.Rand) []sluice.Limit, check func(*trial) error) {
	r := seeded(t)
	const length = 40
	for range boundSteps / length {
		tr := &trial{t: t, r: r, now: epoch + r.Int64N(1000)}
		for _, l := range variants(r) {
			tr.specs = append(tr.specs, compile(t, l))
		}
		tr.spec = tr.specs[0]
		for range length {
			tr.step()
		}
		if err := check(tr); err != nil {
			for _, h := range tr.history {
				t.Logf("%+d at %d", h.net, h.t-epoch)
			}
			for _, p := range tr.specs {
				t.Log(p.Limit)
			}
			t.Fatal(err)
		}
	}
}

// intervals adds up every interval that begins and ends with something
// happening: the others hold no more in no less time.
func (tr *trial) intervals(check func(from, to, net int64) error) error {
	for i := range tr.history {
		var net int64
		for _, h := range tr.history[i:] {
			net += h.net
			if err := check(tr.history[i].t, h.t, net); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestBoundOfTokenBucket: at most burst + rate × interval, of the larger burst
// and the faster rate where the limit changes.
func TestBoundOfTokenBucket(t *testing.T) {
	variants := func(r *rand.Rand) []sluice.Limit {
		ls := make([]sluice.Limit, 1+r.IntN(3))
		for i := range ls {
			ls[i] = someLimit(r, sluice.TokenBucket)
			if r.IntN(3) == 0 { // so slow that a millitoken takes long
				ls[i].Amount = sluice.Thousandths(1)
				ls[i].Period = time.Duration(1+r.Int64N(2000)) * time.Microsecond
			}
		}
		return ls
	}
	trials(t, variants, func(tr *trial) error {
		var burst, amount, period int64 = 0, 0, 1
		for _, p := range tr.specs {
			burst = max(burst, p.Capacity)
			if a, b := p.Limit.Rate(); a*period > amount*b {
				amount, period = a, b
			}
		}
		return tr.intervals(func(from, to, net int64) error {
			if net*period > burst*period+amount*(to-from) {
				return fmt.Errorf("%d in %d µs, with a burst of %d and %d/%dµs", net, to-from, burst, amount, period)
			}
			return nil
		})
	})
}

// TestBoundOfSlidingWindow: at most the limit in any window of its length.
func TestBoundOfSlidingWindow(t *testing.T) {
	variants := func(r *rand.Rand) []sluice.Limit {
		ls := []sluice.Limit{someLimit(r, sluice.SlidingWindow)}
		for range r.IntN(2) {
			ls = append(ls, someLimit(r, sluice.SlidingWindow))
		}
		return ls
	}
	trials(t, variants, func(tr *trial) error {
		amount, period := int64(0), int64(1<<62)
		for _, p := range tr.specs {
			amount = max(amount, p.Capacity)
			period = min(period, p.Limit.Period.Microseconds())
		}
		return tr.intervals(func(from, to, net int64) error {
			if to-from <= period && net > amount {
				return fmt.Errorf("%d in %d µs, with %d per %d µs", net, to-from, amount, period)
			}
			return nil
		})
	})
}

// TestBoundOfFixedWindow: at most the limit in each aligned window.
func TestBoundOfFixedWindow(t *testing.T) {
	variants := func(r *rand.Rand) []sluice.Limit {
		l := someLimit(r, sluice.FixedWindow)
		m := l
		m.Amount = someLimit(r, sluice.FixedWindow).Amount
		return []sluice.Limit{l, m}[:1+r.IntN(2)]
	}
	trials(t, variants, func(tr *trial) error {
		period := tr.specs[0].Limit.Period.Microseconds()
		var amount int64
		for _, p := range tr.specs {
			amount = max(amount, p.Capacity)
		}
		return tr.intervals(func(from, to, net int64) error {
			if from/period == to/period && net > amount {
				return fmt.Errorf("%d from %d to %d, with %d per %d µs", net, from-epoch, to-epoch, amount, period)
			}
			return nil
		})
	})
}

// TestBoundOfConcurrency: at most the limit unexpired at once, counted by
// whoever holds the leases.
func TestBoundOfConcurrency(t *testing.T) {
	r := seeded(t)
	ids := make([]string, 40)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	for range boundSteps / len(ids) {
		small := compile(t, someLimit(r, sluice.Concurrency))
		large := compile(t, someLimit(r, sluice.Concurrency))
		if small.Capacity > large.Capacity {
			small, large = large, small
		}
		p := small
		var s bucket.State
		now := epoch
		holders := make([]bucket.Holder, len(ids)) // by number; their owners' view
		for i := range ids {
			now += r.Int64N(20)
			v := p.View(&s, now-r.Int64N(2)*r.Int64N(50))
			some := r.IntN(len(ids))
			switch r.IntN(6) {
			case 0, 1, 2:
				f := bucket.Holder{ID: ids[i], Cost: 1 + r.Int64N(p.Capacity), Expires: v.Now + r.Int64N(200)}
				if f.Cost <= v.Available() {
					p.Board(&s, v, f)
					holders[i] = f
				}
			case 3:
				p.Alight(&s, v, ids[some])
				holders[some].Expires = 0
			case 4:
				p.Extend(&s, v, ids[some], v.Now+100)
				if f := &holders[some]; f.Expires > v.Now {
					f.Expires = v.Now + 100
				}
			case 5:
				next := []*bucket.Spec{small, large}[r.IntN(2)]
				next.Adopt(&s, p, now)
				p = next
			}
			var inFlight int64
			for _, f := range holders {
				if f.Expires > now {
					inFlight += f.Cost
				}
			}
			if inFlight > large.Capacity {
				t.Fatalf("%d in flight of %d", inFlight, large.Capacity)
			}
		}
	}
}
