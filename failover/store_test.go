package failover_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]failover.Config{
		"failover: Timeout: -1s: must be above 0":                              {Timeout: -time.Second},
		"failover: Failures: -1: must be above 0":                              {Failures: -1},
		"failover: Successes: -1: must be above 0":                             {Successes: -1},
		"failover: Backoff: 1m0s: must be above 0 and at most MaxBackoff, 10s": {Backoff: time.Minute, MaxBackoff: 10 * time.Second},
		"failover: MaxBuckets: -1: must be above 0":                            {MaxBuckets: -1},
		"failover: Partial.Share: 3: must be 1 to 100":                         {Partial: failover.Phase{Share: 3}},
		"failover: Stabilizing.Share: 101: must be 1 to 100":                   {Stabilizing: failover.Phase{Share: 101}},
		"failover: Testing.Successes: -1: must be above 0":                     {Testing: failover.Phase{Successes: -1}},
		"failover: Testing.For: -1s: must be above 0":                          {Testing: failover.Phase{For: -time.Second}},
		"failover: Testing.Rate: 101: must be 0 to 100":                        {Testing: failover.Phase{Rate: 101}},
		`failover: Quotas["a"]: limit.amount: 0: must be above 0`:              {Quotas: map[string]failover.Quota{"a": {}}},
		`failover: Quotas["a"]: factor: -1: must be 1 to 1000000 thousandths`:  {Quotas: map[string]failover.Quota{"a": {Limit: sluice.Per(1, time.Second), Factor: -1}}},
		`failover: Quotas["a"]: factor: 1000000: leaves nothing of 0.001/s`:    {Quotas: map[string]failover.Quota{"a": {Limit: sluice.MustParse("0.001/s"), Factor: 1_000_000}}},
		`failover: Quotas["a"]: factor: 1000000: is too large for`:             {Quotas: map[string]failover.Quota{"a": {Limit: sluice.MustParse("1M/1000d"), Factor: 1_000_000}}},
		`failover: Quotas["a"]: limit: 5 concurrent: must be a rate`:           {Quotas: map[string]failover.Quota{"a": {Limit: sluice.MustParse("5 concurrent")}}},
		"failover: local quotas: memory: MaxBuckets":                           {MaxBuckets: 1 << 40},
	} {
		if s, err := failover.New(nil, c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
			if s != nil {
				s.Close()
			}
		}
	}
}

// watched is a store that tells of room made elsewhere.
type watched struct {
	*faulty
	wake func(sluice.Key)
}

func (w *watched) Watch(wake func(sluice.Key)) { w.wake = wake }

func TestWatchIsPassedOn(t *testing.T) {
	_, _, f := open(t, failover.Config{})
	plain, err := failover.New(struct{ sluice.Store }{f}, failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	plain.Watch(func(sluice.Key) { t.Error("who called?") }) // there is nothing to pass on
	w := &watched{faulty: f}
	s, err := failover.New(w, failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var woken sluice.Key
	s.Watch(func(k sluice.Key) { woken = k })
	w.wake(sluice.Key{Entity: "a"})
	if woken.Entity != "a" {
		t.Error("the key did not arrive")
	}
	if s.Capabilities() != f.Capabilities() {
		t.Error("capabilities differ")
	}
}

func TestClosedStore(t *testing.T) {
	l, s, _ := open(t, failover.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := l.Take(t.Context(), demand("a")); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("take on a closed store: %v", err)
		}
	}
	if s.State() != failover.Normal {
		t.Error("closing is no failure")
	}
}

func TestOtherOperationsNeedTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		dm := demand("a")
		dm.Cost = sluice.Thousandths(-sluice.Token)
		operations := map[string]func() error{
			"adjust": func() error { _, err := l.Adjust(ctx, dm); return err },
			"settle": func() error { _, err := l.Lease("x").Commit(ctx); return err },
			"reset":  func() error { return l.Reset(ctx, dm.Key) },
			"return": func() error { return s.Return(ctx, []sluice.HoldReturn{{Key: dm.Key, Limit: dm.Limit}}) },
			"hold": func() error {
				return s.Hold(ctx, []sluice.HoldRequest{{Key: dm.Key, Limit: dm.Limit, Min: sluice.Thousandths(1), Max: sluice.Thousandths(1), TTL: time.Second}}, make([]sluice.Grant, 1))
			},
			"list": func() error { _, err := l.List(ctx, sluice.Query{}); return err },
		}
		for name, operate := range operations {
			f.set(none)
			if err := operate(); err != nil && !errors.Is(err, sluice.ErrLeaseClosed) {
				t.Errorf("%s: %v", name, err)
			}
			if name == "list" {
				continue // has no time-out of its own
			}
			f.set(deaf)
			start := time.Now()
			if err := operate(); !errors.Is(err, sluice.ErrUnknown) && name != "settle" {
				t.Errorf("%s without an answer: %v, want unknown", name, err)
			}
			if took := time.Since(start); took > 250*time.Millisecond {
				t.Errorf("%s took %s", name, took)
			}
		}
		if n := s.Stats().UnknownAdjusts; n != 1 {
			t.Errorf("%d unknown adjustments, want 1", n)
		}
		breakOpen(t, l, s, f)
		calls, start := f.calls.Load(), time.Now()
		for name, operate := range operations {
			if err := operate(); !errors.Is(err, sluice.ErrUnavailable) {
				t.Errorf("%s while open: %v, want unavailable", name, err)
			}
		}
		if f.calls.Load() != calls || time.Since(start) != 0 {
			t.Error("an open breaker asked the store")
		}
	})
}

// A long outage with millions of keys: memory stays within the bound, keys
// beyond it share a quota, and that is counted.
func TestMemoryIsBoundedInALongOutage(t *testing.T) {
	const keys, most = outageKeys, outageBuckets
	slow := map[string]failover.Quota{"enterprise": {Limit: sluice.Per(100, 24*time.Hour)}}
	l, s, f := open(t, failover.Config{MaxBuckets: most, Quotas: slow})
	breakOpen(t, l, s, f)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	take := sluice.Take{Tier: "enterprise", Demands: []sluice.Demand{demand("")}}
	var d sluice.Decision
	for i := range keys {
		take.Demands[0].Key.Entity = fmt.Sprintf("customer-%015d", i)
		if err := l.Decide(t.Context(), &take, &d); err != nil {
			t.Fatal(err)
		}
	}
	grown := heap() - before
	st := s.Stats()
	t.Logf("%d keys: %d buckets, %d MB of heap, %d takes shared a quota, %+v", keys, st.Buckets, grown>>20, st.Overflowed, st.Degraded["enterprise"])
	if st.Buckets > most+1 || st.Bytes > most*256 || grown > most*256 {
		t.Errorf("%d buckets, %d bytes reckoned, %d grown: beyond the bound", st.Buckets, st.Bytes, grown)
	}
	if least := int64(keys - most - 1000); st.Overflowed < least || st.Degraded["enterprise"].Refused < least {
		t.Errorf("%d takes shared a quota and %+v, want %d to share one of 100 a day", st.Overflowed, st.Degraded["enterprise"], least)
	}
}
