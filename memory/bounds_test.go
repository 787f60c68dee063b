package memory_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func demand(entity, limit string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: entity, Resource: "api", Limit: "rpm"}, Limit: sluice.MustParse(limit)}
}

func take(t *testing.T, l *sluice.Limiter, demands ...sluice.Demand) sluice.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), demands...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBeyondTheBoundNewKeysShareOneBucket(t *testing.T) {
	s := open(t, memory.Config{MaxBuckets: 100})
	l := sluice.New(s)
	for i := range 100 {
		if d := take(t, l, demand(fmt.Sprint("early", i), "3/hour")); !d.Allowed {
			t.Fatalf("take %d refused: %v", i, d.Err())
		}
	}
	allowed := 0
	for i := range 50 {
		if take(t, l, demand(fmt.Sprint("late", i), "3/hour")).Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("50 keys beyond the bound were allowed %d times, want 3 for all of them", allowed)
	}
	if d := take(t, l, demand("early7", "3/hour")); !d.Allowed || d.Results[0].Remaining.Thousandths() != sluice.Token {
		t.Errorf("a key from before the bound was disturbed: %+v", d)
	}
	st := s.Stats()
	if st.Overflowed != 50 || st.Buckets != 101 {
		t.Errorf("stats: %+v, want 50 overflowed and 101 buckets", st)
	}
}

func TestOverflowKeepsDemandsOfOneTakeApart(t *testing.T) {
	l := sluice.New(open(t, memory.Config{MaxBuckets: 1}))
	take(t, l, demand("first", "5/hour"))
	two := []sluice.Demand{demand("a", "5/hour"), demand("b", "5/hour")}
	for i := range 5 {
		if d := take(t, l, two...); !d.Allowed || d.Results[1].Remaining.Thousandths() != int64(4-i)*sluice.Token {
			t.Fatalf("take %d: %+v", i, d)
		}
	}
	if take(t, l, two...).Allowed {
		t.Error("a sixth take passed")
	}
}

func TestBytesAreBounded(t *testing.T) {
	s := open(t, memory.Config{MaxBytes: 1 << 20, Log: quiet})
	l := sluice.New(s)
	ctx := context.Background()
	for i := range 10_000 {
		d := demand(fmt.Sprintf("client-%020d", i), "10/hour sliding")
		if _, err := l.Take(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st.Bytes > 1<<20+64<<10 || st.Overflowed == 0 {
		t.Errorf("after 10000 sliding windows: %+v, want about 1 MiB and overflows", st)
	}
}

func TestReceiptsAreBounded(t *testing.T) {
	l := sluice.New(open(t, memory.Config{MaxBytes: 1 << 16}))
	var err error
	for i := range 10_000 {
		var d sluice.Decision
		take := sluice.Take{ID: fmt.Sprint("request", i), Demands: []sluice.Demand{demand("a", "100000/hour")}}
		if err = l.Decide(context.Background(), &take, &d); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("10000 request ids were kept within 64 KiB")
	}
}

func TestFullBucketsAreForgottenAndOnlyThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory.Config{})
		l := sluice.New(s)
		for i := range 2000 {
			take(t, l, demand(fmt.Sprint("fast", i), "10/s"))
			if i%10 == 0 {
				take(t, l, demand(fmt.Sprint("slow", i), "10/hour"))
			}
		}
		if n := s.Stats().Buckets; n != 2200 {
			t.Fatalf("%d buckets, want 2200", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		st := s.Stats()
		if st.Buckets != 200 || st.Forgotten != 2000 {
			t.Errorf("a minute later: %+v, want the 200 slow ones left", st)
		}
		for i := 0; i < 2000; i += 10 {
			// 10 an hour is one in 360 s, so a minute has brought 0.166 back.
			if d := take(t, l, demand(fmt.Sprint("slow", i), "10/hour")); d.Results[0].Remaining.Thousandths() != 8166 {
				t.Fatalf("slow%d has %s left, want 8.166", i, d.Results[0].Remaining)
			}
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if st := s.Stats(); st.Buckets != 0 || st.Bytes != 0 {
			t.Errorf("three hours later: %+v, want nothing left", st)
		}
	})
}

func TestMemoryIsGivenBack(t *testing.T) {
	clock := newClock()
	s := open(t, memory.Config{Clock: clock.Now, MaxBuckets: 30_000})
	l := sluice.New(s)
	fill := func(generation int) uint64 {
		for i := range 20_000 {
			take(t, l, demand(fmt.Sprintf("g%d-%d", generation, i), "10/s"))
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	first := fill(0)
	for g := range 5 {
		clock.Advance(time.Hour)
		if heap := fill(g + 1); heap > 2*first {
			t.Fatalf("generation %d: heap %d, first %d: memory is not reused", g+1, heap, first)
		}
	}
	if st := s.Stats(); st.Overflowed != 0 {
		t.Errorf("%d takes overflowed though older buckets were full", st.Overflowed)
	}
}

func TestScopesAreForgotten(t *testing.T) {
	clock := newClock()
	s := open(t, memory.Config{Clock: clock.Now})
	l := sluice.New(s)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first uint64
	for g := range 6 {
		for i := range 10_000 {
			d := demand("same", "10/s")
			d.Key.Resource = fmt.Sprintf("/path/%d/%d", g, i)
			take(t, l, d)
		}
		clock.Advance(time.Hour)
		if g == 1 {
			first = heap()
		}
	}
	if h := heap(); h > first*3/2 {
		t.Errorf("heap %d after 60000 resources, %d after 20000: scopes are kept", h, first)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]memory.Config{
		"memory: MaxBuckets: -1: must be 1 to 134217728":  {MaxBuckets: -1},
		"memory: MaxBytes: 12: must be at least 1024":     {MaxBytes: 12},
		"memory: SnapshotEvery: 1ms: must be at least 1s": {SnapshotEvery: time.Millisecond},
	} {
		if _, err := memory.Open(c); err == nil || err.Error() != want {
			t.Errorf("Open(%+v) = %v, want %s", c, err, want)
		}
	}
}

func TestClosedStore(t *testing.T) {
	s := open(t, memory.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sluice.New(s).Take(context.Background(), demand("a", "1/s")); err == nil || err.Error() != "memory store: closed" {
		t.Errorf("take on a closed store: %v", err)
	}
}

func TestCancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := sluice.New(open(t, memory.Config{}))
	if _, err := l.Take(ctx, demand("a", "1/s")); err != context.Canceled {
		t.Errorf("take with a cancelled context: %v", err)
	}
	if d := take(t, l, demand("a", "1/s")); !d.Allowed {
		t.Error("the cancelled take consumed a token")
	}
}

// TestLimitsCountAsBytes: whoever asks for other numbers every time fills the
// memory with limits rather than with buckets, and is stopped as well.
func TestLimitsCountAsBytes(t *testing.T) {
	s := open(t, memory.Config{MaxBytes: 1 << 20})
	l := sluice.New(s)
	for i := range 10_000 {
		d := demand(fmt.Sprint("client", i), "10/hour")
		d.Limit.Amount = sluice.Thousandths(d.Limit.Amount.Thousandths() + int64(i))
		take(t, l, d)
	}
	if st := s.Stats(); st.Bytes > 1<<20+64<<10 || st.Overflowed == 0 {
		t.Errorf("after 10000 limits: %+v, want about 1 MiB and overflows", st)
	}
}

// A store in a process that is short of memory behaves as at its bound, and
// keeps every bucket that is not full.
func TestUnderPressureFullBucketsGoAtOnce(t *testing.T) {
	clock := testclock.New(time.Unix(1_800_000_000, 0))
	s := open(t, memory.Config{Clock: clock.Now})
	l := sluice.New(s)
	take(t, l, demand("slow", "3/hour"))
	for i := range 50 {
		take(t, l, demand(fmt.Sprint("fast", i), "3/ms"))
	}
	clock.Advance(time.Second) // they are full again, and were just used
	if n := s.Press(true); n != 50 {
		t.Errorf("%d buckets were forgotten, want 50", n)
	}
	if st := s.Stats(); st.Buckets != 1 || st.Forgotten != 50 {
		t.Errorf("under pressure: %+v", st)
	}
	for i := range 4 {
		if d := take(t, l, demand(fmt.Sprint("new", i), "3/hour")); d.Allowed != (i < 3) {
			t.Errorf("new key %d under pressure: %+v", i, d)
		}
	}
	if d := take(t, l, demand("slow", "3/hour")); d.Results[0].Remaining.Thousandths() != sluice.Token {
		t.Errorf("a bucket in use was disturbed: %+v", d)
	}
	s.Press(false)
	if d := take(t, l, demand("new3", "3/hour")); !d.Allowed {
		t.Errorf("a new key after the pressure: %+v", d)
	}
}
