package holding

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/redisserver"
)

// The test binary is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == WorkerCommand {
		if err := Worker(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each scenario runs for a moment on every side. Nothing here is about time:
// only that the bound holds and that the figures can be what they say.
func TestScenariosStayWithinTheBound(t *testing.T) {
	redis, err := redisserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := redis.Close(); err != nil {
			t.Error(err)
		}
	}()
	srv, err := connect(redis.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.client.Close()
	o := Quick(io.Discard)
	for _, st := range o.settings() {
		t.Run(st.name, func(t *testing.T) {
			standings, err := o.compare(srv, st)
			if err != nil {
				t.Fatal(err)
			}
			for i := range standings {
				for j := range standings[i].turns {
					check(t, &o, st, standings[i].Name, &standings[i].turns[j])
				}
			}
		})
	}
}

func check(t *testing.T, o *Options, st setting, side string, got *turn) {
	t.Helper()
	if got.over != 0 && side != redisRate {
		t.Errorf("%s: %d buckets over the bound; %s", side, got.over, got.first)
	}
	if got.Asked == 0 || got.Passed == 0 || got.Passed > got.Asked || got.buckets == 0 || got.admissions == 0 {
		t.Errorf("%s: asked %d, passed %d, %d admissions of %d buckets recorded", side, got.Asked, got.Passed, got.admissions, got.buckets)
	}
	if got.calls == 0 || got.all < got.calls {
		t.Errorf("%s: the server counted %d calls and %d commands", side, got.calls, got.all)
	}
	if side == held && st.rules[0].limit.Capacity().Whole() >= 1000 && got.Stats.Granted == 0 {
		t.Errorf("nothing was held: %+v", got.Stats)
	}
	if side != held && got.Local != 0 {
		t.Errorf("%s: %d decisions without the store", side, got.Local)
	}
	// Takes that were called in time and answered later may be a few more.
	if share := got.share(); share > 1.2 {
		t.Errorf("%s: %.2f of what may pass did", side, share)
	}
	if st.pace > 0 {
		want := int64(st.pace) * o.Duration.Milliseconds() / 1000
		if got.Asked < want-1 || got.Asked > want+1 {
			t.Errorf("%d takes, want %d", got.Asked, want)
		}
	}
}

func TestRunReportsEverything(t *testing.T) {
	o := Quick(io.Discard)
	o.Duration = 100 * time.Millisecond
	s, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, st := range o.settings() {
		rows += len(st.sides)
	}
	for _, table := range s.Tables {
		if len(table.Rows) != rows {
			t.Errorf("%s: %d rows, want %d", table.Title, len(table.Rows), rows)
		}
	}
	if len(s.Claims) != 12 {
		t.Errorf("%d claims: %+v", len(s.Claims), s.Claims)
	}
}
