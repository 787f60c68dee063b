package limitstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestAClockThatHangs: one server of a cluster that does not answer does not keep
// the others' clocks from being looked at.
func TestAClockThatHangs(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s, err := Open(t.Context(), redis.Config{Address: cluster.URL(), Clock: time.Now}) // nobody else looks
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	others := cluster.Primaries()
	others[0].Pause()
	for range 5 { // whichever is asked first
		s.clocks.seen = nil
		s.lookAtClocks()
		for _, node := range others[1:] {
			if _, ok := s.clocks.seen[node.Addr()]; !ok {
				t.Errorf("the clock of %s was not looked at", node.Addr())
			}
		}
		if _, ok := s.clocks.seen[others[0].Addr()]; ok {
			t.Errorf("%s hangs and was heard", others[0].Addr())
		}
	}
}

// TestClockThatIsSet tells of two servers' clocks, of which one is set. A gap
// between two looks, however long, is no step, nor is a slow answer.
func TestClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		s := &Store{}
		ahead := map[string]time.Duration{"a": time.Hour, "b": -time.Hour} // of this clock
		ask := func(takes, decidedAfter time.Duration) {
			for _, addr := range []string{"a", "b"} {
				asked := time.Now()
				there := asked.Add(decidedAfter + ahead[addr]).UnixMicro()
				time.Sleep(takes)
				s.clocks.saw(addr, there, asked, log)
			}
		}
		want := func(stats Stats) {
			t.Helper()
			if got := s.Stats(); got != stats {
				t.Fatalf("%+v, want %+v", got, stats)
			}
			if lines := int64(strings.Count(out.String(), "\n")); lines != stats.ClockBack+stats.ClockForward+stats.ClockGaps {
				t.Fatalf("%d lines logged: %s", lines, out.String())
			}
		}
		ask(time.Millisecond, 0)
		time.Sleep(14 * time.Second)
		ask(time.Millisecond, 0)
		want(Stats{})
		time.Sleep(24 * time.Hour)
		ask(3*time.Second, 0)
		ask(time.Millisecond, 0)
		ask(3*time.Second, 3*time.Second)
		ask(time.Millisecond, 0)
		want(Stats{ClockGaps: 2})
		ahead["a"] -= 2 * time.Second
		ask(time.Millisecond, 0)
		ask(time.Millisecond, 0)
		want(Stats{ClockBack: 1, ClockGaps: 2})
		ahead["b"] += time.Minute
		ask(time.Millisecond, 0)
		ask(time.Millisecond, 0)
		want(Stats{ClockBack: 1, ClockForward: 1, ClockGaps: 2})
		if !strings.Contains(out.String(), "node=b by=1m0s") {
			t.Errorf("the log does not say which clock and by how much: %s", out.String())
		}
	})
}
