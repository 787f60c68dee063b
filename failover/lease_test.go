package failover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

func acquire(t *testing.T, l *sluice.Limiter, tier string, demands ...sluice.Demand) (*sluice.Lease, sluice.Decision) {
	t.Helper()
	lease, d, err := l.Acquire(context.Background(), sluice.Take{Demands: demands, Tier: tier})
	if err != nil {
		t.Fatal(err)
	}
	return lease, d
}

func TestLeasesOfAnOutageAreSettledLocally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		breakOpen(t, l, s, f)
		rpm, tpm, parallel := demand("a"), demand("a"), demand("a")
		tpm.Key.Limit, tpm.Cost = "tpm", sluice.Tokens(500)
		parallel.Key.Limit, parallel.Limit = "parallel", sluice.MustParse("3 concurrent")
		lease, d := acquire(t, l, "pro", rpm, tpm, parallel)
		if lease == nil || d.Source != sluice.Degraded || d.ID != lease.ID {
			t.Fatalf("%+v", d)
		}
		if n := s.Stats().Leases; n != 1 {
			t.Errorf("%d leases, want 1", n)
		}
		var field *sluice.FieldError
		if _, err := lease.Adjust(ctx, sluice.LimitCost{Limit: "typo", Cost: sluice.Thousandths(1)}); !errors.As(err, &field) {
			t.Errorf("a limit that is not in the lease: %v", err)
		}
		if _, err := lease.Adjust(ctx, sluice.LimitCost{Limit: "parallel", Cost: sluice.Tokens(2)}); !errors.As(err, &field) {
			t.Errorf("adjusting concurrency: %v", err)
		}
		d, err := lease.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(420)})
		if err != nil || d.Source != sluice.Degraded || d.Results[1].Consumed.Thousandths() != -80*sluice.Token || d.Results[0].Consumed.Thousandths() != 0 {
			t.Errorf("adjust: %+v, %v", d, err)
		}
		for i, r := range d.Results { // only the store knows what is left
			if !r.Unknown || r.Remaining.Thousandths() != 0 {
				t.Errorf("adjust shows of %s what nobody knows: %+v", d.Demands[i].Key.Limit, r)
			}
		}
		if err := lease.Renew(ctx, 10*time.Minute); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)

		// The store is back by now, but knows nothing of the lease.
		f.set(none)
		d, err = lease.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(450)})
		settled := tpm
		settled.Cost = sluice.Tokens(450)
		if err != nil || d.Demands[1] != settled || d.Results[1].Consumed.Thousandths() != 30*sluice.Token || d.Results[2].Consumed.Thousandths() != -sluice.Token {
			t.Errorf("commit: %+v, %v", d, err)
		}
		if d, err := lease.Commit(ctx); err != nil || len(d.Results) != 0 {
			t.Errorf("commit again: %+v, %v", d, err)
		}
		if n := s.Stats().Leases; n != 0 {
			t.Errorf("%d leases, want 0", n)
		}
		for range 3 { // close the breaker, for the store to be asked
			decide(t, l, "", critical("a"))
		}
		if err := lease.Release(ctx); !errors.Is(err, sluice.ErrLeaseClosed) {
			t.Errorf("release after commit: %v", err)
		}
	})
}

func TestReleasedLeasesGiveTheQuotaBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		breakOpen(t, l, s, f)
		for i := range 100 { // far more than the quota of 2
			lease, d := acquire(t, l, "", demand("a"))
			if lease == nil {
				t.Fatalf("lease %d: %v", i, d.Err())
			}
			if err := lease.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if lease, _ := acquire(t, l, "", demand("a")); lease == nil {
				t.Error("refused within the quota")
			}
		}
		if lease, d := acquire(t, l, "", demand("a")); lease != nil || d.Allowed {
			t.Error("a third lease passed")
		}
	})
}

func TestAllowedLeasesSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		breakOpen(t, l, s, f)
		dm := demand("a")
		dm.OnUnavailable = sluice.Allow
		dm.Limit = sluice.MustParse("1 concurrent")
		for i := range 10 {
			lease, d := acquire(t, l, "", dm)
			if lease == nil || d.Source != sluice.Degraded {
				t.Fatalf("lease %d: %+v", i, d)
			}
			if d, err := lease.Commit(ctx); err != nil || d.Results[0].Consumed.Thousandths() != -sluice.Token {
				t.Errorf("commit: %+v, %v", d, err)
			}
		}
		dm.OnUnavailable = sluice.Deny
		if lease, _ := acquire(t, l, "", dm); lease != nil {
			t.Error("a denied lease was given")
		}
	})
}

func TestLeasesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		lease, _ := acquire(t, l, "", demand("a"))
		time.Sleep(sluice.DefaultKeep + time.Second)
		f.set(none)
		for range 3 {
			decide(t, l, "", critical("a"))
		}
		if _, err := lease.Commit(context.Background()); !errors.Is(err, sluice.ErrLeaseClosed) {
			t.Errorf("commit of an expired lease: %v", err)
		}
		if n := s.Stats().Leases; n != 0 {
			t.Errorf("%d leases, want 0", n)
		}
	})
}

func TestLeasesOfTheStoreNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		dm := demand("a")
		dm.Limit = sluice.MustParse("10/hour")
		lease, _ := acquire(t, l, "", dm)
		breakOpen(t, l, s, f)
		local, _ := acquire(t, l, "", demand("b"))
		if err := lease.Release(ctx); !errors.Is(err, sluice.ErrUnavailable) {
			t.Errorf("release while open: %v", err)
		}
		time.Sleep(s.Stats().NextProbe)
		f.set(none)
		if err := lease.Release(ctx); err != nil {
			t.Errorf("release after that: %v", err)
		}
		if err := local.Release(ctx); err != nil {
			t.Errorf("release of a local lease: %v", err)
		}
		if d := decide(t, l, "", dm); d.Results[0].Remaining.Thousandths() != 9*sluice.Token {
			t.Errorf("%s left, want 9: the release reached the store", d.Results[0].Remaining)
		}
	})
}

func TestLeasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{MaxBuckets: 1000})
		breakOpen(t, l, s, f)
		dm := demand("a")
		dm.OnUnavailable = sluice.Allow
		leases := make([]*sluice.Lease, 0, 20_000)
		for i := range cap(leases) {
			lease, d := acquire(t, l, "", dm)
			if lease == nil {
				t.Fatalf("lease %d: %v", i, d.Err())
			}
			leases = append(leases, lease)
		}
		st := s.Stats()
		if st.Leases != 250 || st.Unlisted != 20_000-250 || st.Bytes > 4<<20 {
			t.Errorf("stats %+v, want 250 leases", st)
		}
		if d, err := leases[0].Commit(context.Background()); err != nil || d.Results[0].Consumed.Thousandths() != 0 {
			t.Errorf("a listed lease: %+v, %v", d, err)
		}
		if d, err := leases[300].Commit(context.Background()); err != nil || len(d.Results) != 0 {
			t.Errorf("a lease that is not listed: %+v, %v", d, err)
		}
		time.Sleep(2 * time.Minute)
		if st := s.Stats(); st.Leases != 0 {
			t.Errorf("%d leases after they expired", st.Leases)
		}
	})
}

func TestDoDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		ran := 0
		for i := range 10 {
			err := l.Do(context.Background(), sluice.Take{Demands: []sluice.Demand{demand("a")}},
				func(context.Context, *sluice.Lease) error { ran++; return nil })
			var refused *sluice.RefusedError
			if i >= 2 && !errors.As(err, &refused) || i < 2 && err != nil {
				t.Errorf("time %d: %v", i, err)
			}
		}
		if ran != 2 {
			t.Errorf("ran %d times, want 2", ran)
		}
	})
}

func TestUnknownLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.set(deaf)
		lease, d := acquire(t, l, "pro", demand("a"))
		if lease == nil || d.Source != sluice.Unknown {
			t.Fatalf("%+v", d)
		}
		f.set(none)
		takes := f.takes.Load()
		if d, err := lease.Commit(context.Background()); err != nil || d.Source != sluice.Degraded {
			t.Errorf("commit: %+v, %v", d, err)
		}
		if f.takes.Load() != takes {
			t.Error("the take was sent again")
		}
		if st := s.Stats(); st.Unknown != 1 || st.Leases != 0 {
			t.Errorf("stats %+v", st)
		}
	})
}

// A lease that the store granted without anybody hearing of it is settled there,
// too: its place is free again, whether it was given locally or refused.
func TestUnknownLeasesLeaveNoPlaceTaken(t *testing.T) {
	for _, when := range []sluice.OnUnavailable{sluice.Allow, sluice.Deny} {
		synctest.Test(t, func(t *testing.T) {
			l, _, f := open(t, failover.Config{})
			place := demand("a")
			place.Limit, place.OnUnavailable = sluice.MustParse("1 concurrent"), when
			f.set(deaf)
			lease, d := acquire(t, l, "pro", place)
			if d.Source != sluice.Unknown || (lease != nil) != (when == sluice.Allow) {
				t.Fatalf("%+v", d)
			}
			f.set(none)
			if lease != nil {
				if _, err := lease.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(10 * time.Second)
			if lease, d := acquire(t, l, "pro", place); lease == nil || d.Source != sluice.FromStore {
				t.Errorf("%v: the place is taken: %+v", when, d)
			}
		})
	}
}
