package pressure

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Pressure begins at 80 %, relieves every 10 s while it lasts, and is over at
// 70 %, not before.
func TestPressureBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, begun, over atomic.Int64
		g := Watch(1000, live.Load, map[string]Relief{"things": func(pressed bool) int64 {
			if pressed {
				begun.Add(1)
				return 5
			}
			over.Add(1)
			return 0
		}}, slog.New(slog.DiscardHandler))
		defer g.Close()
		for _, step := range []struct {
			live        int64
			wait        time.Duration
			pressed     bool
			begun, over int64
		}{
			{799, 5 * time.Second, false, 0, 0},
			{800, 2 * time.Second, true, 1, 0},
			{750, 2 * time.Second, true, 1, 0},
			{750, 10 * time.Second, true, 2, 0},
			{700, 2 * time.Second, false, 2, 1},
			{799, 30 * time.Second, false, 2, 1},
			{900, 2 * time.Second, true, 3, 1},
		} {
			live.Store(step.live)
			time.Sleep(step.wait)
			synctest.Wait()
			st := g.Stats()
			if st.Pressed != step.pressed || begun.Load() != step.begun || over.Load() != step.over || st.Evicted["things"] != 5*step.begun {
				t.Fatalf("at %d: %+v, relieved %d times, told %d times that it is over; want %+v", step.live, st, begun.Load(), over.Load(), step)
			}
		}
		if st := g.Stats(); st.Begun != 2 || st.Limit != 1000 || st.Live != 900 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

func TestLiveIsWithoutGarbage(t *testing.T) {
	const size = 64 << 20
	runtime.GC()
	before := Live()
	kept := make([]byte, size)
	runtime.GC()
	with := Live()
	runtime.KeepAlive(kept)
	garbage := make([]byte, size)
	runtime.KeepAlive(garbage)
	if more := with - before; more < size/2 {
		t.Errorf("%d bytes more are in use with %d more in use", more, size)
	}
	runtime.GC()
	if more := Live() - before; more > size/2 {
		t.Errorf("%d bytes more are in use with nothing more in use", more)
	}
}

func TestContainer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.max")
	if n := container(file); n != 0 {
		t.Errorf("without a file: %d", n)
	}
	for text, want := range map[string]int64{"max\n": 0, "536870912\n": 512 << 20} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := container(file); n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
}
