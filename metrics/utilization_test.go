package metrics_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
)

// watch is a limiter on a memory store whose buckets are watched.
func watch(t *testing.T, u *metrics.Utilization) *sluice.Limiter {
	store, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return sluice.New(store, sluice.WithObserver(u))
}

func newUtilization(t *testing.T, log *bytes.Buffer) *metrics.Utilization {
	u, err := metrics.NewUtilization(catalog.Thresholds{}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func take(t *testing.T, l *sluice.Limiter, entity, limit string, n int64) {
	t.Helper()
	_, err := l.Take(context.Background(), sluice.Demand{
		Key:   sluice.Key{Entity: entity, Resource: "mail", Limit: "rpm"},
		Limit: sluice.MustParse(limit), Cost: sluice.Tokens(n),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func near(warning, critical int) string {
	return fmt.Sprintf(`
# HELP sluice_buckets_near_limit Buckets at an alarm, as far as this process knows.
# TYPE sluice_buckets_near_limit gauge
sluice_buckets_near_limit{alarm="critical"} %d
sluice_buckets_near_limit{alarm="warning"} %d
`, critical, warning)
}

func wantNear(t *testing.T, u *metrics.Utilization, warning, critical int) {
	t.Helper()
	if err := testutil.CollectAndCompare(u, strings.NewReader(near(warning, critical)), "sluice_buckets_near_limit"); err != nil {
		t.Error(err)
	}
}

// TestLevelsAreToldOncePerCrossing: as a bucket fills up there is a line at
// 70 % and one at 90 %, none for each take, and none for going to and fro.
func TestLevelsAreToldOncePerCrossing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := newUtilization(t, &log)
		l := watch(t, u)
		for used := 1; used <= 100; used++ {
			take(t, l, "acme", "100/100s", 1)
			if lines, want := strings.Count(log.String(), "\n"), min(used/70, 1)+used/90; lines != want {
				t.Fatalf("%d lines at %d %%, want %d:\n%s", lines, used, want, log.String())
			}
		}
		for _, want := range []string{
			`level=WARN msg="bucket near its limit" alarm=warning utilization=70 entity=****e resource=mail limit=rpm`,
			`level=ERROR msg="bucket near its limit" alarm=critical utilization=90 `,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		wantNear(t, u, 0, 1)

		time.Sleep(15 * time.Second) // 85 % used: within the slack
		wantNear(t, u, 0, 1)
		take(t, l, "acme", "100/100s", 10)
		time.Sleep(20 * time.Second) // 75 %
		wantNear(t, u, 1, 0)
		take(t, l, "acme", "100/100s", 20) // 95 %: critical again, but told of half a minute ago
		wantNear(t, u, 0, 1)
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines, want 2:\n%s", lines, log.String())
		}
		time.Sleep(50 * time.Second)
		wantNear(t, u, 0, 0)
		take(t, l, "acme", "100/100s", 50) // 95 %, and it is some time since
		if lines := strings.Count(log.String(), "\n"); lines != 3 {
			t.Errorf("%d lines, want 3:\n%s", lines, log.String())
		}
		if err := testutil.CollectAndCompare(u, strings.NewReader(`
# HELP sluice_utilization_crossings_total Times that a bucket came to an alarm from below.
# TYPE sluice_utilization_crossings_total counter
sluice_utilization_crossings_total{alarm="critical"} 3
sluice_utilization_crossings_total{alarm="warning"} 2
`), "sluice_utilization_crossings_total"); err != nil {
			t.Error(err)
		}
	})
}

// TestUnknownFiguresRaiseNoAlarm: a limit that was not asked is not used up.
func TestUnknownFiguresRaiseNoAlarm(t *testing.T) {
	var log bytes.Buffer
	u := newUtilization(t, &log)
	demands := []sluice.Demand{
		{Key: sluice.Key{Entity: "acme", Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("100/hour")},
		{Key: sluice.Key{Entity: "acme", Resource: "mail", Limit: "daily"}, Limit: sluice.MustParse("1000/day")},
	}
	u.Decided(&sluice.Take{Demands: demands}, &sluice.Decision{
		Source: sluice.FromDenyCache, Demands: demands,
		Results: []sluice.Result{{Remaining: sluice.Tokens(40)}, {Fits: true, Unknown: true}},
	}, nil, 0)
	wantNear(t, u, 0, 0)
	wantPeak(t, u, 0.6) // and none of daily
	if log.Len() > 0 {
		t.Errorf("the log has %s", log.String())
	}
}

func wantPeak(t *testing.T, u *metrics.Utilization, ratio float64) {
	t.Helper()
	if err := testutil.CollectAndCompare(u, strings.NewReader(fmt.Sprintf(`
# HELP sluice_utilization_ratio How full the fullest bucket was that was asked for in the last minute, by resource and limit; 1 is used up, above is debt. Beyond the first 200 combinations all are other.
# TYPE sluice_utilization_ratio gauge
sluice_utilization_ratio{limit="rpm",resource="mail"} %g
`, ratio)), "sluice_utilization_ratio"); err != nil {
		t.Error(err)
	}
}

// TestTheFullestBucketIsShown for a while, and then no more.
func TestTheFullestBucketIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUtilization(t, new(bytes.Buffer))
		l := watch(t, u)
		take(t, l, "a", "100/hour", 30)
		take(t, l, "b", "100/hour", 60)
		take(t, l, "c", "100/hour", 10)
		wantPeak(t, u, 0.6)
		time.Sleep(31 * time.Second)
		take(t, l, "a", "100/hour", 1)
		wantPeak(t, u, 0.6)
		time.Sleep(60 * time.Second)
		wantPeak(t, u, 0)
		take(t, l, "c", "100/hour", 80) // of the 10 before, 91 s have brought back 2.528
		wantPeak(t, u, 0.87473)
	})
}

// TestManyBucketsAreWatchedWithinBounds: neither the log, nor memory, nor
// Prometheus gets all of them.
func TestManyBucketsAreWatchedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := newUtilization(t, &log)
		limit := sluice.MustParse("10/hour")
		for i := range 20_000 {
			demand := sluice.Demand{Key: sluice.Key{Entity: fmt.Sprint(i), Resource: fmt.Sprint("/", i)}, Limit: limit}
			d := sluice.Decision{Results: []sluice.Result{{Remaining: sluice.Amount{}, ResetAfter: time.Hour}}}
			u.Decided(&sluice.Take{Demands: []sluice.Demand{demand}}, &d, nil, 0)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 60 {
			t.Errorf("%d lines, want 60", lines)
		}
		if n := testutil.CollectAndCount(u, "sluice_utilization_ratio"); n != 201 {
			t.Errorf("%d series, want 200 and the others", n)
		}
		watched := 10_000.0
		families, err := gather(u)
		if err != nil {
			t.Fatal(err)
		}
		if n := families["sluice_buckets_near_limit"].GetMetric()[0].GetGauge().GetValue(); n != watched {
			t.Errorf("%v are watched, want %v", n, watched)
		}
		if n := families["sluice_utilization_unwatched_total"].GetMetric()[0].GetCounter().GetValue(); n != 20_000-watched {
			t.Errorf("%v are not watched", n)
		}
		time.Sleep(2 * time.Hour)
		wantNear(t, u, 0, 0)
		take(t, watch(t, u), "next", "10/hour", 9)
		if !strings.Contains(log.String(), "untold=9940") {
			t.Error("the log does not say how many it left out")
		}
	})
}

// TestWhatIsNotAboutTheBucketDoesNotCount: local quotas, and limits that the
// deny cache did not ask.
func TestWhatIsNotAboutTheBucketDoesNotCount(t *testing.T) {
	var log bytes.Buffer
	u := newUtilization(t, &log)
	demand := sluice.Demand{Limit: sluice.MustParse("10/hour")}
	for _, d := range []sluice.Decision{
		{Source: sluice.Degraded, Results: []sluice.Result{{}}},
		{Source: sluice.Unknown, Results: []sluice.Result{{}}},
		{Source: sluice.FromDenyCache, Results: []sluice.Result{{Fits: true, Unknown: true}}},
	} {
		u.Decided(&sluice.Take{Demands: []sluice.Demand{demand}}, &d, nil, 0)
	}
	u.Decided(&sluice.Take{Demands: []sluice.Demand{demand}}, &sluice.Decision{}, sluice.ErrUnavailable, 0)
	wantNear(t, u, 0, 0)
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

func TestLevelsMustMakeSense(t *testing.T) {
	for _, at := range []catalog.Thresholds{{Warning: -1}, {Warning: 101}, {Warning: 95}, {Critical: 60}, {Critical: 101}} {
		if _, err := metrics.NewUtilization(at, quiet); err == nil {
			t.Errorf("%+v is accepted", at)
		}
	}
	if _, err := metrics.NewUtilization(catalog.Thresholds{Warning: 50, Critical: 50}, quiet); err != nil {
		t.Error(err)
	}
}

func BenchmarkUtilization(b *testing.B) {
	u, err := metrics.NewUtilization(catalog.Thresholds{}, quiet)
	if err != nil {
		b.Fatal(err)
	}
	demand := sluice.Demand{Key: sluice.Key{Entity: "alice", Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("10/hour")}
	take := sluice.Take{Demands: []sluice.Demand{demand}}
	for _, c := range []struct {
		name string
		left int64
	}{{"far", 8 * sluice.Token}, {"near", sluice.Token}} {
		b.Run(c.name, func(b *testing.B) {
			d := sluice.Decision{Allowed: true, Results: []sluice.Result{{Fits: true, Remaining: sluice.Thousandths(c.left), ResetAfter: time.Hour}}}
			b.ReportAllocs()
			for b.Loop() {
				u.Decided(&take, &d, nil, time.Microsecond)
			}
		})
	}
}

// TestAdjustingCrossesLevels: what a lease turns out to have cost, and what is
// consumed without asking, raises alarms as takes do, and giving back ends them.
func TestAdjustingCrossesLevels(t *testing.T) {
	var log bytes.Buffer
	u := newUtilization(t, &log)
	l := watch(t, u)
	demand := func(entity string, n int64) sluice.Demand {
		return sluice.Demand{Key: sluice.Key{Entity: entity, Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("10/day"), Cost: sluice.Thousandths(n * sluice.Token)}
	}
	if _, err := l.Adjust(t.Context(), demand("ann", 8)); err != nil {
		t.Fatal(err)
	}
	wantNear(t, u, 1, 0)
	lease, _, err := l.Acquire(t.Context(), sluice.Take{Demands: []sluice.Demand{demand("bob", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Adjust(t.Context(), sluice.LimitCost{Limit: "rpm", Cost: sluice.Thousandths(9500)}); err != nil {
		t.Fatal(err)
	}
	wantNear(t, u, 1, 1)
	if got := strings.Count(log.String(), "bucket near its limit"); got != 2 {
		t.Errorf("%d lines, want 2:\n%s", got, &log)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNear(t, u, 1, 0)
}
