package bucket_test

import (
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// queue has a caller wait, and answers in how long it could pass.
func queue(p *bucket.Spec, s *bucket.State, now int64, seq uint64, rank, cost int64) int64 {
	v := p.View(s, now)
	t := p.Stand(s, &v, sluice.HoldID{Node: seq, Seq: 1}, rank)
	t.Cost, t.Expires = cost, v.Now+5*second
	in := p.RetryIn(s, v, cost)
	p.Queue(s, v, t)
	return in
}

func TestTicketsAreServedByRank(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	take(p, &s, epoch, 20_000)
	steps := []struct {
		seq            uint64
		rank, cost, in int64 // tokens in thousandths, times in milliseconds
	}{
		{1, 10_000, 1000, 100},
		{2, 10_001, 5000, 600},
		{3, 0, 2000, 200},       // overtakes both
		{1, 0, 1000, 300},       // keeps its rank, but has one before it now
		{4, 10_001, 1000, 900},  // of equal ranks the lower id is first
		{2, 99_999, 5000, 800},  // renewed: its rank stays
		{5, 20_000, 21_000, -1}, // never
	}
	for _, step := range steps {
		want := step.in * 1000
		if step.in < 0 {
			want = bucket.Never
		}
		if in := queue(p, &s, epoch, step.seq, step.rank*1000, step.cost); in != want {
			t.Errorf("ticket %d passes in %d µs, want %d", step.seq, in, want)
		}
	}
	p.Leave(&s, p.View(&s, epoch), sluice.HoldID{Node: 5, Seq: 1})
	now := epoch + 100_000
	v := p.View(&s, now)
	if v.Remaining() != 1000 || v.Available() != 1000-9000 || v.Tickets != 4 || !v.ForHeld(1000) {
		t.Errorf("%d left, %d for who comes last of %d", v.Remaining(), v.Available(), v.Tickets)
	}
	if p.Grantable(&s, v, 1, 1000) != 0 || !s.Recalled(v) || p.HoldableIn(&s, v, 1) != 4_900_000 {
		t.Error("tokens are held ahead of those who wait")
	}
	// Giving up costs nobody anything: the next in line moves up.
	if p.Leave(&s, v, sluice.HoldID{Node: 3, Seq: 2}) || !p.Leave(&s, v, sluice.HoldID{Node: 3, Seq: 1}) || p.Leave(&s, v, sluice.HoldID{Node: 3, Seq: 1}) {
		t.Error("a ticket is not taken out once")
	}
	if in := queue(p, &s, now, 1, 0, 1000); in != 0 {
		t.Errorf("the first in line passes in %d", in)
	}
	// Tickets lapse, and a bucket without any is a plain one again.
	v = p.View(&s, epoch+10*second)
	if v.Tickets != 0 || v.Available() != 20_000 || s.Recalled(v) {
		t.Errorf("%d tickets have not expired", v.Tickets)
	}
	p.Take(&s, v, 1000)
	if s.Ext != nil {
		t.Errorf("%+v is kept of those who waited", s.Ext)
	}
}

// TestOneTicketForEachNode: the node decides who of its callers is first.
func TestOneTicketForEachNode(t *testing.T) {
	p := parse(t, "1/s")
	var s bucket.State
	take(p, &s, epoch, 1000)
	queue(p, &s, epoch, 1, 0, 1000)
	v := p.View(&s, epoch)
	other := p.Stand(&s, &v, sluice.HoldID{Node: 1, Seq: 2}, second)
	if in := p.RetryIn(&s, v, 1000); in != second {
		t.Errorf("behind a ticket of its own node: %d", in)
	}
	other.Cost, other.Expires = 1000, epoch+second
	p.Queue(&s, v, other)
	if v = p.View(&s, epoch); v.Tickets != 1 || v.Ahead != 1000 {
		t.Errorf("%d tickets of one node", v.Tickets)
	}
}

// TestTicketsBlockWhoComesAfter: where only those before in line are in the
// way, it is until the first of them must have come.
func TestTicketsBlockWhoComesAfter(t *testing.T) {
	for _, limit := range []string{"2/minute fixed", "2/minute sliding", "2 concurrent"} {
		p := parse(t, limit)
		var s bucket.State
		if in := queue(p, &s, epoch, 1, 0, 2000); in != 0 {
			t.Fatalf("%s: the first has to wait", limit)
		}
		v := p.View(&s, epoch+second)
		if v.Available() != 0 || !v.Idle() || !s.Recalled(v) {
			t.Errorf("%s: %d available beside the ticket", limit, v.Available())
		}
		if in := p.RetryIn(&s, v, 1000); in != 4*second {
			t.Errorf("%s: retry in %d", limit, in)
		}
	}
}

func TestTicketsSurviveResetAndChange(t *testing.T) {
	for _, to := range []string{"5/s", "5/minute sliding", "5 concurrent", "5/minute fixed"} {
		p, q := parse(t, "10/s"), parse(t, to)
		var s bucket.State
		take(p, &s, epoch, 10_000)
		queue(p, &s, epoch, 1, 0, 1000)
		p.Reset(&s, p.View(&s, epoch))
		q.Adopt(&s, p, epoch)
		if v := q.View(&s, epoch); v.Tickets != 1 || v.Ahead != 1000 {
			t.Errorf("%s: %d tickets are left", to, v.Tickets)
		}
	}
}

func TestTicketsAreBounded(t *testing.T) {
	p := parse(t, "10/s")
	var s bucket.State
	take(p, &s, epoch, 10_000)
	for i := range bucket.MaxTickets + 10 {
		queue(p, &s, epoch, uint64(i+1), 0, 1e15)
	}
	if v := p.View(&s, epoch); v.Tickets != bucket.MaxTickets || v.Ahead != sluice.MaxThousandths {
		t.Errorf("%d tickets want %d", v.Tickets, v.Ahead)
	}
}
