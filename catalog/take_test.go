package catalog_test

import (
	"math"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/memory"
)

func newLimiter(t testing.TB, options ...sluice.Option) *sluice.Limiter {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return sluice.New(store, options...)
}

// TestTakesCascade takes from a child until its team is used up: nothing is
// taken from anybody by the take that the team refuses.
func TestTakesCascade(t *testing.T) {
	b := family(t)
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: b.store})
	b.no(err)
	l := newLimiter(t, sluice.WithObserver(recorder))
	r := b.resolve("alice")
	for i := range 4 {
		d, err := l.Take(b.ctx, r.Demands(nil, "alice", sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(200)})...)
		b.no(err)
		if d.Allowed != (i < 3) {
			t.Fatalf("take %d: allowed %t", i+1, d.Allowed)
		}
		if decided, _ := d.Deciding(); i == 3 && (decided.Key.Entity != "team" || decided.Level != sluice.LevelEntity) {
			t.Errorf("refused by %s of level %s, want the team's", decided.Key, decided.Level)
		}
	}
	figures, err := r.Panel(b.ctx, l, "alice", catalog.Thresholds{})
	b.no(err)
	want := []struct {
		entity, limit string
		used          float64
		alarm         catalog.Alarm
	}{{"alice", "rpm", 30, catalog.AlarmNone}, {"alice", "tpm", 60, catalog.AlarmNone}, {"team", "rpm", 100, catalog.AlarmCritical}, {"company", "rpm", 3, catalog.AlarmNone}}
	for i, w := range want {
		f := figures[i]
		if f.Entity != w.entity || f.Limit != w.limit || math.Abs(f.Utilization-w.used) > 1 || f.Alarm != w.alarm || f.Upgrade != (w.alarm != catalog.AlarmNone) {
			t.Errorf("figure %d: %+v, want %+v", i, f, w)
		}
	}
	// What they used is what the takes that passed have consumed.
	b.no(recorder.Close())
	page, err := b.c.UsageSummary(b.ctx, catalog.DefaultNamespace, catalog.UsedQuery{To: time.Now().Add(time.Hour)})
	b.no(err)
	sums := map[string]int64{}
	for _, u := range page.Used {
		sums[u.Entity+"/"+u.Limit] = u.Amount.Thousandths()
	}
	if len(sums) != 4 || sums["alice/rpm"] != 3*sluice.Token || sums["alice/tpm"] != 600*sluice.Token || sums["team/rpm"] != 3*sluice.Token || sums["company/rpm"] != 3*sluice.Token {
		t.Errorf("usage: %v", sums)
	}
}

func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		t    catalog.Thresholds
		at   float64
		want catalog.Alarm
	}{
		{catalog.Thresholds{}, 69.9, catalog.AlarmNone}, {catalog.Thresholds{}, 70, catalog.AlarmWarning}, {catalog.Thresholds{}, 90, catalog.AlarmCritical},
		{catalog.Thresholds{}, 130, catalog.AlarmCritical}, {catalog.Thresholds{Warning: 50, Critical: 60}, 55, catalog.AlarmWarning},
	} {
		if got := c.t.Alarm(c.at); got != c.want {
			t.Errorf("%+v at %v: %s, want %s", c.t, c.at, got, c.want)
		}
	}
}

// TestAMillionTakesAreFewWrites counts rows, not takes.
func TestAMillionTakesAreFewWrites(t *testing.T) {
	b := open(t, catalog.Config{})
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: b.store, Every: time.Minute})
	b.no(err)
	key := sluice.Key{Namespace: catalog.DefaultNamespace, Entity: "alice", Resource: "chat", Limit: "rpm"}
	limit := sluice.Per(1, time.Second)
	now := time.Now()
	for range 1_000_000 {
		recorder.Consumed(key, limit, sluice.Consumption{Amount: sluice.Tokens(1), Taken: now, Take: true})
	}
	b.no(recorder.Close())
	if s := recorder.Stats(); s.Written != 3 {
		t.Errorf("%d rows written for a million takes, want 3: an hour, a day and a total", s.Written)
	}
	page, err := b.c.UsageSummary(b.ctx, catalog.DefaultNamespace, catalog.UsedQuery{To: time.Now().Add(time.Hour)})
	b.no(err)
	if len(page.Used) != 1 || page.Used[0].Amount.Thousandths() != 1_000_000*sluice.Token || page.Used[0].Count != 1_000_000 {
		t.Errorf("usage: %+v", page.Used)
	}
}

func TestUsageIsKeptForItsTime(t *testing.T) {
	b := open(t, catalog.Config{})
	now := time.Now().UTC()
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: b.store, Hours: 24 * time.Hour, Days: 10 * 24 * time.Hour})
	b.no(err)
	var rows []catalog.UsageRow
	for _, days := range []int{0, 2, 20} {
		for _, span := range []catalog.Span{catalog.Hourly, catalog.Daily} {
			at := now.AddDate(0, 0, -days).Truncate(24 * time.Hour)
			if span == catalog.Hourly {
				at = now.AddDate(0, 0, -days).Truncate(time.Hour)
			}
			rows = append(rows, catalog.UsageRow{Namespace: catalog.DefaultNamespace, Entity: "alice", Resource: "chat", Limit: "rpm", Span: span, Start: at, Amount: 1, Count: 1})
		}
	}
	b.no(b.store.AddUsage(b.ctx, &catalog.UsageBatch{Node: "n", Seq: 1, Rows: rows}))
	b.no(recorder.Prune(b.ctx))
	b.no(recorder.Close())
	for span, want := range map[catalog.Span]int{catalog.Hourly: 1, catalog.Daily: 2} {
		page, err := b.c.Usage(b.ctx, catalog.DefaultNamespace, catalog.UsedQuery{Entity: "alice", Span: span, From: now.AddDate(0, 0, -30), To: now.Add(time.Hour)})
		b.no(err)
		if len(page.Used) != want {
			t.Errorf("%d rows by the %s are left, want %d", len(page.Used), span, want)
		}
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	b := open(t, catalog.Config{})
	for name, config := range map[string]catalog.Config{
		"store": {}, "ttl": {Store: b.store, TTL: time.Millisecond}, "entries": {Store: b.store, Entries: 1},
		"secret": {Store: b.store, Secret: []byte("short")}, "default": {Store: b.store, Default: catalog.Limits{"rpm": {}}},
	} {
		if c, err := catalog.Open(b.ctx, config); err == nil {
			t.Errorf("%s: a wrong one was taken", name)
			b.no(c.Close())
		}
	}
	for name, config := range map[string]catalog.RecorderConfig{
		"store": {}, "every": {Store: b.store, Every: time.Hour}, "hours": {Store: b.store, Hours: 1}, "days": {Store: b.store, Days: 1}, "series": {Store: b.store, Series: -1},
	} {
		if _, err := catalog.NewRecorder(config); err == nil {
			t.Errorf("recorder %s: a wrong one was taken", name)
		}
	}
}

func TestDefaultLimitsApplyWhereNoLevelHasAny(t *testing.T) {
	b := open(t, catalog.Config{Default: limits("rpm", "9/minute")})
	r := b.resolve("alice")
	if len(r.Applied) != 1 || r.Applied[0].Level != sluice.LevelDefault || r.Applied[0].From != catalog.FromConfig {
		t.Errorf("got %+v", r.Applied)
	}
	b.set(catalog.Scope{}, "tpm", "9/minute")
	if r := b.resolve("alice"); r.Applied[0].Level != sluice.LevelSystem || len(r.Hidden) != 1 {
		t.Errorf("got %+v, hidden %+v", r.Applied, r.Hidden)
	}
}
