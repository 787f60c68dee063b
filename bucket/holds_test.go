package bucket_test

import (
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const second = int64(1_000_000)

func hold(p *bucket.Spec, s *bucket.State, now, amount, ttl int64, seq uint64) int64 {
	v := p.View(s, now)
	n := p.Grantable(s, v, 1, amount)
	if n > 0 {
		p.Hold(s, v, bucket.Hold{ID: sluice.HoldID{Seq: seq}, Amount: n, Expires: v.Now + ttl})
	}
	return n
}

// TestHeldAndLeftNeverExceedTheBurst: refill stops at the burst less what is
// held.
func TestHeldAndLeftNeverExceedTheBurst(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	take(p, &s, epoch, 10_000)
	if n := hold(p, &s, epoch, 8000, 60*second, 1); n != 8000 {
		t.Fatalf("held %d", n)
	}
	v := p.View(&s, epoch+30*second)
	if v.Held != 8000 || v.Available() != 12_000 {
		t.Errorf("%+v", v)
	}
	// Returned unspent, they are free again at once: they were never used.
	p.Return(&s, v, sluice.HoldID{Seq: 1}, 0)
	if v := p.View(&s, epoch+30*second); v.Available() != 20_000 || s.Consumed != 10_000 {
		t.Errorf("%+v, consumed %d", v, s.Consumed)
	}
}

// TestExpiredHoldsAreSpent: from the moment they expire they are repaid like
// anything that was used, and returns come too late.
func TestExpiredHoldsAreSpent(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	hold(p, &s, epoch, 20_000, second, 1)
	for _, c := range []struct{ at, available int64 }{
		{0, 0}, {second - 1, 0}, {second, 0}, {2 * second, 10_000}, {3 * second, 20_000}, {9 * second, 20_000},
	} {
		if v := p.View(&s, epoch+c.at); v.Available() != c.available {
			t.Errorf("after %d µs there are %d, want %d", c.at, v.Available(), c.available)
		}
	}
	now := epoch + 2*second
	for _, spent := range []int64{0, 20_000} {
		if p.Return(&s, p.View(&s, now), sluice.HoldID{Seq: 1}, spent) {
			t.Errorf("a late return of %d was taken", spent)
		}
	}
	if v := p.View(&s, now); v.Available() != 10_000 || p.ConsumedBy(&s, v) != 20_000 {
		t.Errorf("%+v, consumed %d", v, s.Consumed)
	}
}

// TestReturnsAreBelievedWithinTheHold: a node cannot return more than it held
// by claiming odd amounts.
func TestReturnsAreBelievedWithinTheHold(t *testing.T) {
	p := parse(t, "10/s burst 20")
	for spent, used := range map[int64]int64{-1: 0, 0: 0, 3000: 3000, 5000: 5000, 1 << 60: 5000} {
		var s bucket.State
		hold(p, &s, epoch, 5000, second, 1)
		if !p.Return(&s, p.View(&s, epoch), sluice.HoldID{Seq: 1}, spent) {
			t.Fatal("the hold is not there")
		}
		if p.Return(&s, p.View(&s, epoch), sluice.HoldID{Seq: 1}, 0) {
			t.Error("a hold was returned twice")
		}
		if v := p.View(&s, epoch); v.Used != used || v.Held != 0 || s.Consumed != used {
			t.Errorf("spent %d: %+v", spent, v)
		}
	}
}

// TestHoldsEndWithTheirWindow: a fixed window is not spent from the next one.
func TestHoldsEndWithTheirWindow(t *testing.T) {
	p := parse(t, "10/minute fixed")
	var s bucket.State
	v := p.View(&s, epoch+50*second)
	if end := p.Hold(&s, v, bucket.Hold{ID: sluice.HoldID{Seq: 1}, Amount: 4000, Expires: epoch + 300*second}); end != epoch+60*second {
		t.Errorf("a hold until %d", end-epoch)
	}
	if v := p.View(&s, epoch+60*second); v.Available() != 10_000 || v.Held != 0 {
		t.Errorf("%+v", v)
	}
	if p.Return(&s, p.View(&s, epoch+60*second), sluice.HoldID{Seq: 1}, 0) {
		t.Error("the last window's hold was returned into this one")
	}
	if n := p.ConsumedBy(&s, p.View(&s, epoch+60*second)); n != 4000 {
		t.Errorf("net consumption is %d: what a dead hold had counts as spent", n)
	}
}

func TestGrants(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	take(p, &s, epoch, 15_000)
	v := p.View(&s, epoch)
	for _, c := range []struct{ least, most, granted int64 }{
		{1, 1000, 1000}, {1, 9000, 5000}, {5000, 9000, 5000}, {5001, 9000, 0}, {0, 0, 0},
	} {
		if n := p.Grantable(&s, v, c.least, c.most); n != c.granted {
			t.Errorf("between %d and %d: granted %d, want %d", c.least, c.most, n, c.granted)
		}
	}
	p.Take(&s, v, 10_000)
	if n := p.Grantable(&s, p.View(&s, epoch), 0, 1000); n != 0 {
		t.Errorf("granted %d in debt", n)
	}
	for _, l := range []string{"10/s sliding", "10 concurrent"} {
		p, s := parse(t, l), bucket.State{}
		if n := p.Grantable(&s, p.View(&s, epoch), 1, 1000); n != 0 || p.Holdable() {
			t.Errorf("%s: granted %d", l, n)
		}
	}
}

// TestHoldsAreBounded: there may be only so many at once, and those that have
// expired are none.
func TestHoldsAreBounded(t *testing.T) {
	p := parse(t, "1000/s burst 1000")
	var s bucket.State
	for i := range bucket.MaxHolds {
		if hold(p, &s, epoch, 1, second, uint64(i+1)) != 1 {
			t.Fatalf("hold %d was not granted", i)
		}
	}
	if hold(p, &s, epoch, 1, second, 999) != 0 {
		t.Error("one hold too many")
	}
	if hold(p, &s, epoch+second, 1, second, 999) != 1 {
		t.Error("expired holds stand in the way of a new one")
	}
}

// TestRecall: a take that only held tokens refuse stops further grants until
// it passes or could have.
func TestRecall(t *testing.T) {
	p := parse(t, "10/s burst 20")
	fresh := func() *bucket.State {
		var s bucket.State
		hold(p, &s, epoch, 10_000, 5*second, 1)
		return &s
	}

	s := fresh()
	v := p.View(s, epoch)
	if p.Recall(s, v, 21_000) {
		t.Error("a cost that can never pass recalled the holds")
	}
	if n := p.Grantable(s, v, 1, 1000); n != 1000 {
		t.Errorf("granted %d before a recall", n)
	}
	if !p.Recall(s, v, 15_000) || !s.Recalled(v) {
		t.Fatal("not recalled")
	}
	if n := p.Grantable(s, v, 1, 1000); n != 0 {
		t.Errorf("granted %d after a recall", n)
	}

	// A smaller take that passes, or is refused too, does not end it.
	take(p, s, epoch, 10_000)
	v = p.View(s, epoch)
	if !p.Recall(s, v, 1000) {
		t.Error("a smaller cost was not refused for what is held")
	}
	in := p.RetryIn(s, v, 15_000)
	for _, at := range []int64{0, second, in - 1} {
		if v := p.View(s, epoch+at); !s.Recalled(v) {
			t.Errorf("no longer recalled after %d µs, with %d to go", at, in-at)
		}
	}
	if v := p.View(s, epoch+in); s.Recalled(v) {
		t.Error("recalled after its time")
	}

	// It ends when the take passes, for instance because the hold came back.
	s = fresh()
	p.Recall(s, p.View(s, epoch), 15_000)
	p.Return(s, p.View(s, epoch), sluice.HoldID{Seq: 1}, 0)
	if v := p.View(s, epoch); !s.Recalled(v) {
		t.Error("a return ended the recall before the take came")
	}
	take(p, s, epoch, 15_000)
	if v := p.View(s, epoch); s.Recalled(v) {
		t.Error("still recalled after the take passed")
	}
	if s = fresh(); p.Recall(s, p.View(s, epoch+10*second), 15_000) {
		t.Error("expired holds were recalled")
	}
}
