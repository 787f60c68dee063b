package bucket_test

import (
	"testing"

	"github.com/sluice-go/sluice/bucket"
)

func board(p *bucket.Spec, s *bucket.State, now int64, id string, cost, expires int64) bool {
	v := p.View(s, now)
	if cost > v.Available() {
		return false
	}
	p.Board(s, v, bucket.Holder{ID: id, Cost: cost, Expires: expires})
	return true
}

func TestConcurrencySteps(t *testing.T) {
	p := parse(t, "3 concurrent")
	var s bucket.State
	if !board(p, &s, epoch, "a", 1000, epoch+10*second) || !board(p, &s, epoch, "b", 2000, epoch+5*second) {
		t.Fatal("three did not fit")
	}
	if board(p, &s, epoch, "c", 1000, epoch+second) {
		t.Fatal("a fourth fitted")
	}
	v := p.View(&s, epoch)
	for cost, want := range map[int64]int64{1000: 5 * second, 2000: 5 * second, 3000: 10 * second, 4000: bucket.Never} {
		if in := p.RetryIn(&s, v, cost); in != want {
			t.Errorf("%d could pass in %d µs, want %d", cost, in, want)
		}
	}
	if in := p.ResetIn(&s, v); in != 10*second {
		t.Errorf("empty in %d µs", in)
	}

	if cost := p.Alight(&s, p.View(&s, epoch+second), "a"); cost != 1000 {
		t.Errorf("a alighted with %d", cost)
	}
	if cost := p.Alight(&s, p.View(&s, epoch+second), "a"); cost != 0 {
		t.Errorf("a alighted again with %d", cost)
	}
	if !board(p, &s, epoch+second, "c", 1000, epoch+20*second) {
		t.Error("no room where a was")
	}

	// b expires; what comes for it later is ignored.
	now := epoch + 5*second
	if v := p.View(&s, now); v.Available() != 2000 {
		t.Errorf("%d free after an expiry", v.Available())
	}
	if cost := p.Alight(&s, p.View(&s, now), "b"); cost != 0 {
		t.Errorf("an expired lease alighted with %d", cost)
	}
	p.Extend(&s, p.View(&s, now), "b", now+10*second)
	if v := p.View(&s, now); v.Available() != 2000 {
		t.Error("an expired lease was extended")
	}

	// A renewed one stays, at its new place in the order of expiry.
	board(p, &s, now, "d", 2000, now+second)
	p.Extend(&s, p.View(&s, now), "d", now+100*second)
	v = p.View(&s, now+50*second)
	if v.Available() != 1000 || p.RetryIn(&s, v, 2000) != 50*second {
		t.Errorf("after a renewal: %+v", v)
	}

	// Time does not go back to when b was in flight.
	if v := p.View(&s, epoch); v.Now != now || v.Available() != 0 {
		t.Errorf("%+v", v)
	}
	p.Reset(&s, v)
	if v := p.View(&s, now); !v.Idle() {
		t.Errorf("after a reset: %+v", v)
	}
	if p.Alight(&s, p.View(&s, now), "d") != 0 {
		t.Error("a lease survived a reset")
	}
}

// TestHoldersOfNobody: an absent bucket has nothing to let go.
func TestHoldersOfNobody(t *testing.T) {
	p := parse(t, "3 concurrent")
	var s bucket.State
	v := p.View(&s, epoch)
	p.Extend(&s, v, "a", epoch+second)
	if p.Alight(&s, v, "a") != 0 || p.RetryIn(&s, v, 3000) != 0 || p.ResetIn(&s, v) != 0 {
		t.Errorf("%+v", s)
	}
	p.Reset(&s, v)
	if v := p.View(&s, epoch); !v.Idle() {
		t.Errorf("%+v", v)
	}
}
