package advance_test

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

// TestBoundAcrossProcesses runs real processes on a real store. One is killed
// and replaced, one is stopped past the life of its holds and goes on, one has
// a connection that is slow, loses answers and breaks, and what they admitted
// is checked for intervals over the bound. Their clock and the server's are
// the same, as they are on one machine.
func TestBoundAcrossProcesses(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		p := faultproxy.Start(t, server.Addr())
		acrossProcesses(t, server.URL(), "redis://"+p.Addr(), p)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := postgrestest.Start(t)
		address := server.Database(t)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		p := faultproxy.Start(t, u.Host)
		u.Host = p.Addr()
		acrossProcesses(t, address, u.String(), p)
	})
}

func acrossProcesses(t *testing.T, address, through string, p *faultproxy.Proxy) {
	const length = 16 * time.Second
	limits := []string{"200/s burst 400", "1000/s", "400/s fixed"}
	dir := t.TempDir()
	start := func(name, address string, life time.Duration) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=TestWorkerProcess")
		cmd.Env = job{address, filepath.Join(dir, name), life, limits}.environ()
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill() //nolint:errcheck // it is usually gone
			if t.Failed() && stderr.Len() > 0 {
				t.Logf("%s: %s", name, stderr.String())
			}
		})
		return cmd
	}
	var begin time.Time
	at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
	signal := func(cmd *exec.Cmd, s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	steady, victim, sleeper := start("steady", address, length), start("victim", address, length), start("sleeper", address, length)
	far := start("far", through, length)
	for _, name := range []string{"steady", "victim", "sleeper", "far"} {
		awaitEvents(t, filepath.Join(dir, name))
	}
	begin = time.Now()
	at(2 * time.Second)
	signal(sleeper, syscall.SIGSTOP)
	at(3 * time.Second)
	signal(victim, syscall.SIGKILL)
	at(4 * time.Second)
	heir := start("heir", address, length-4*time.Second)
	p.DelayAnswers(100 * time.Millisecond)
	at(7 * time.Second)
	p.DelayAnswers(0)
	p.LoseAnswers(true)
	at(8 * time.Second)
	p.Cut()
	p.LoseAnswers(false)
	for i := range 10 {
		at(9*time.Second + time.Duration(i)*300*time.Millisecond)
		p.Cut()
	}
	at(14 * time.Second)
	signal(sleeper, syscall.SIGCONT)
	victim.Wait() //nolint:errcheck // it was killed
	for name, cmd := range map[string]*exec.Cmd{"steady": steady, "sleeper": sleeper, "heir": heir, "far": far} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	histories := make([]storetest.History, len(limits))
	for _, name := range []string{"steady", "victim", "sleeper", "heir", "far"} {
		n := readEvents(t, filepath.Join(dir, name), histories)
		t.Logf("%s admitted %d", name, n)
		if n == 0 {
			t.Errorf("%s admitted nothing", name)
		}
	}
	for i, l := range limits {
		report, err := histories[i].Report(sluice.MustParse(l))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d admitted, %.1f %% of the bound; worst: %s", l, len(histories[i].Events), 100*report.Used(), report.Worst)
		if err := report.Err(); err != nil {
			t.Errorf("%s: %v", l, err)
		}
		// How much passes depends on what else the machine does; but were tokens
		// lost with the killed and the cut off, it would be next to nothing.
		if report.Used() < 0.1 {
			t.Errorf("%s: only %.1f %% of the bound was admitted", l, 100*report.Used())
		}
	}
}

// awaitEvents waits until a process has admitted something.
func awaitEvents(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no event in a minute", filepath.Base(file))
		}
	}
}
