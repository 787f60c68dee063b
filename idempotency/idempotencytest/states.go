package idempotencytest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func (f *fixture) lifecycle() {
	first, second := claim("k", 1, 7), claim("k", 2, 7)
	f.looks(first, idempotency.ErrNotFound)
	started := f.clock.Now()
	f.wants(first, idempotency.Claimed)
	f.clock.Advance(time.Second)
	a := f.wants(second, idempotency.Busy)
	f.same("claim end", a.Record.ClaimEnds.UTC(), started.Add(life))
	f.same("start", a.Record.Started.UTC(), started)

	f.finish(second, "stolen", idempotency.ErrLost)
	f.finish(first, "result", nil)
	f.finish(first, "other", nil) // sent again: nothing changes
	f.extends(first, idempotency.ErrLost)
	f.releases(first, idempotency.ErrLost)

	a = f.wants(second, idempotency.Finished)
	f.same("result", string(a.Record.Result), "result")
	f.same("end", a.Record.Finished.UTC(), started.Add(time.Second))
	f.same("expiry", a.Record.Expires.UTC(), started.Add(time.Second+ttl))
	r := f.looks(first, nil)
	f.same("state", r.State, idempotency.Done)
	f.same("attempts", r.Attempts, 1)
	f.same("size", r.Size, len("result"))
	f.same("result", string(r.Result), "result")
	f.same("fingerprint", r.Fingerprint, first.Fingerprint)
}

func (f *fixture) mismatch() {
	first, other := claim("k", 1, 7), claim("k", 2, 8)
	f.wants(first, idempotency.Claimed)
	f.wants(other, idempotency.Mismatch) // running
	f.clock.Advance(life)
	f.wants(other, idempotency.Mismatch) // crashed: nobody takes over with something else
	f.finishAs(first, idempotency.Failed, "no", nil)
	f.wants(other, idempotency.Mismatch) // failed
	again := claim("k", 3, 7)
	f.wants(again, idempotency.TakenOver)
	f.finish(again, "yes", nil)
	f.wants(other, idempotency.Mismatch) // done
	f.clock.Advance(ttl)
	f.wants(other, idempotency.Claimed) // expired
}

func (f *fixture) takeover() {
	first, careful, second, third := claim("k", 1, 7), claim("k", 2, 7), claim("k", 3, 7), claim("k", 4, 7)
	careful.TakeOver = false
	f.wants(first, idempotency.Claimed)
	f.clock.Advance(life - time.Microsecond)
	f.wants(second, idempotency.Busy)
	f.wants(careful, idempotency.Busy)
	f.clock.Advance(time.Microsecond) // nothing is left of its life, which is not the same as no life
	f.wants(careful, idempotency.Unknown)
	if r := f.looks(first, nil); !r.Crashed {
		f.Error("the record does not look crashed")
	}
	a := f.wants(second, idempotency.TakenOver)
	f.same("attempts", a.Record.Attempts, 2)
	f.wants(third, idempotency.Busy)

	// The first one wakes up.
	f.extends(first, idempotency.ErrLost)
	f.finish(first, "old", idempotency.ErrLost)
	f.releases(first, idempotency.ErrLost)
	f.finish(second, "new", nil)
	f.finish(first, "old", idempotency.ErrLost)
	a = f.wants(third, idempotency.Finished)
	f.same("result", string(a.Record.Result), "new")

	// One whose claim has lapsed, but whom nobody took over, still holds it.
	late := claim("late", 1, 7)
	f.wants(late, idempotency.Claimed)
	f.clock.Advance(2 * life)
	f.finish(late, "late", nil)
}

func (f *fixture) extend() {
	first, second := claim("k", 1, 7), claim("k", 2, 7)
	f.extends(first, idempotency.ErrLost)
	f.wants(first, idempotency.Claimed)
	for range 5 {
		f.clock.Advance(life * 9 / 10)
		f.extends(first, nil)
	}
	f.wants(second, idempotency.Busy)
	f.clock.Advance(life)
	f.wants(second, idempotency.TakenOver)
	// Extended by nothing, a claim lapses at once.
	f.is("extend", f.store.Extend(context.Background(), second.Scope.ID(), second.Token, 0), nil)
	if !f.looks(second, nil).Crashed {
		f.Error("a claim that was extended by nothing stands")
	}
	f.wants(first, idempotency.TakenOver)
}

func (f *fixture) resend() {
	first := claim("k", 1, 7)
	f.wants(first, idempotency.Claimed)
	f.wants(first, idempotency.Claimed)
	f.same("attempts", f.looks(first, nil).Attempts, 1)
	f.clock.Advance(life + time.Second)
	f.wants(first, idempotency.Claimed) // it has lapsed, but it is still its own
}

func (f *fixture) release() {
	first, second := claim("k", 1, 7), claim("k", 2, 8)
	f.releases(first, idempotency.ErrLost)
	f.wants(first, idempotency.Claimed)
	f.releases(first, nil)
	f.releases(first, idempotency.ErrLost)
	f.looks(first, idempotency.ErrNotFound)
	f.wants(second, idempotency.Claimed) // with another fingerprint, too
	f.finish(first, "old", idempotency.ErrLost)

	f.forgets(second, nil)
	f.forgets(second, idempotency.ErrNotFound)
	f.wants(first, idempotency.Claimed)
	f.finish(second, "old", idempotency.ErrLost) // a token never fits a later life
	f.finish(first, "new", nil)
	f.forgets(first, nil)
	f.looks(first, idempotency.ErrNotFound)
}

func (f *fixture) failed() {
	first, second := claim("k", 1, 7), claim("k", 2, 7)
	second.TakeOver = false // which is about crashes
	f.wants(first, idempotency.Claimed)
	f.finishAs(first, idempotency.Failed, "refused", nil)
	f.finishAs(first, idempotency.Failed, "refused", nil)
	f.finish(first, "done", idempotency.ErrLost)
	r := f.looks(first, nil)
	f.same("state", r.State, idempotency.Failed)
	f.same("result", string(r.Result), "refused")
	a := f.wants(second, idempotency.TakenOver)
	f.same("attempts", a.Record.Attempts, 2)
	if r := f.looks(first, nil); r.State != idempotency.Running || r.Result != nil || r.Size != 0 {
		f.Errorf("the record is not as new: %+v", r)
	}
	f.finish(second, "accepted", nil)
	f.same("state", f.looks(first, nil).State, idempotency.Done)
}

func (f *fixture) expiry() {
	first, second := claim("k", 1, 7), claim("k", 2, 8)
	f.wants(first, idempotency.Claimed)
	f.clock.Advance(time.Minute)
	f.finish(first, "result", nil) // from here
	f.clock.Advance(ttl - time.Microsecond)
	f.wants(claim("k", 3, 7), idempotency.Finished)
	f.clock.Advance(time.Microsecond)
	f.looks(first, idempotency.ErrNotFound)
	f.forgets(first, idempotency.ErrNotFound)
	a := f.wants(second, idempotency.Claimed)
	f.same("attempts", a.Record.Attempts, 1)
	f.finish(first, "old", idempotency.ErrLost)
	f.finish(second, "second", nil)

	// A run that nobody extended or settled goes as well.
	stuck := claim("stuck", 1, 7)
	f.wants(stuck, idempotency.Claimed)
	f.clock.Advance(ttl)
	f.finish(stuck, "too late", idempotency.ErrLost)
	f.wants(claim("stuck", 2, 8), idempotency.Claimed)
}

func (f *fixture) clockBack() {
	done := claim("done", 1, 7)
	f.wants(done, idempotency.Claimed)
	f.finish(done, "result", nil)
	crashed, alive := claim("crashed", 1, 7), claim("alive", 1, 7)
	f.wants(crashed, idempotency.Claimed)
	f.wants(alive, idempotency.Claimed)

	f.clock.Advance(-30 * time.Minute)
	f.wants(claim("done", 2, 7), idempotency.Finished)
	a := f.wants(claim("crashed", 2, 7), idempotency.Busy)
	f.same("claim end", a.Record.ClaimEnds.UTC(), f.clock.Now().Add(life))
	f.wants(claim("alive", 2, 7), idempotency.Busy)
	f.clock.Advance(life / 2)
	f.extends(alive, nil)
	f.clock.Advance(life / 2)
	f.wants(claim("crashed", 2, 7), idempotency.TakenOver)
	f.wants(claim("alive", 2, 7), idempotency.Busy)
}

func (f *fixture) clockForward() {
	done, running := claim("done", 1, 7), claim("running", 1, 7)
	f.wants(done, idempotency.Claimed)
	f.finish(done, "result", nil)
	f.wants(running, idempotency.Claimed)
	f.clock.Advance(30 * time.Minute)
	f.wants(claim("done", 2, 7), idempotency.Finished)
	second := claim("running", 2, 7)
	f.wants(second, idempotency.TakenOver)
	f.finish(running, "old", idempotency.ErrLost)
	f.clock.Advance(-30 * time.Minute) // and back
	f.extends(second, nil)
	f.finish(second, "new", nil)
	f.same("result", string(f.looks(second, nil).Result), "new")
}

func (f *fixture) scopes() {
	odd := []string{"a", "b", "a\x00", "\x00a", "\xff\xfe", `\61`, "a|b", "{a}", "a b", "ä", "%61", "'", "*"}
	var all []*idempotency.Claim
	for i, name := range odd {
		c := claim("k", byte(i+1), 7)
		c.Scope.Tenant = name
		all = append(all, c)
		for _, change := range []func(*idempotency.Scope){
			func(s *idempotency.Scope) { s.Tenant, s.Key = "", name },
			func(s *idempotency.Scope) { s.Tenant, s.Route = "", name },
			func(s *idempotency.Scope) { s.Tenant, s.Method = "", name },
		} {
			c := claim("k", byte(i+1), 7)
			change(&c.Scope)
			all = append(all, c)
		}
	}
	// Parts must not run into each other.
	left, right := claim("bc", 1, 7), claim("c", 1, 7)
	left.Scope.Route, right.Scope.Route = "a", "ab"
	all = append(all, left, right)
	for _, c := range all {
		f.wants(c, idempotency.Claimed)
		f.same("scope", f.looks(c, nil).Scope, c.Scope)
	}
	for _, c := range all {
		f.finish(c, "result", nil)
		f.wants(c, idempotency.Finished)
	}
}

func (f *fixture) results() {
	random := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 2<<20)
	for i := range large {
		large[i] = byte(random.Uint32())
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, result := range [][]byte{{1}, {0}, every, large} {
		c := claim(string(rune('a'+i)), 1, 7)
		f.wants(c, idempotency.Claimed)
		f.finish(c, string(result), nil)
		a := f.wants(claim(c.Scope.Key, 2, 7), idempotency.Finished)
		if !bytes.Equal(a.Record.Result, result) {
			f.Errorf("a result of %d bytes came back as %d others", len(result), len(a.Record.Result))
		}
		f.same("size", a.Record.Size, len(result))
	}
}
