package limitstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
	"github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/storetest"
)

// helperVariable has this test binary take from a bucket as fast as it can, instead of
// running tests: an address, and for how long.
const helperVariable = "SLUICE_DYNAMODB_TEST_HELPER"

// saturated is the limit that helpers share.
const saturated = "200/s burst 50"

func TestMain(m *testing.M) {
	if address, life, ok := strings.Cut(os.Getenv(helperVariable), " "); ok {
		saturate(address, life)
		return
	}
	os.Exit(m.Run())
}

// saturate takes from several goroutines. It writes a line for each take: what became
// of it, when it was called and when it returned.
func saturate(address, life string) {
	d, err := time.ParseDuration(life)
	if err != nil {
		panic(err)
	}
	s, err := limitstore.Open(context.Background(), dynamodb.Config{Address: address, Timeout: 2 * time.Second, Log: quiet})
	if err != nil {
		panic(err)
	}
	l := sluice.New(s)
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	var group sync.WaitGroup
	end := time.Now().Add(d)
	for range 4 {
		group.Go(func() {
			for time.Now().Before(end) {
				call := time.Now().UnixMicro()
				d, err := l.Take(context.Background(), demand("shared", saturated, 1))
				mu.Lock()
				switch {
				case err == nil && d.Allowed:
					fmt.Fprintln(out, "took", call, time.Now().UnixMicro())
				case errors.Is(err, sluice.ErrUnknown):
					fmt.Fprintln(out, "unknown", call, time.Now().UnixMicro())
				case err != nil && !errors.Is(err, sluice.ErrUnavailable):
					fmt.Fprintln(out, "error", err)
				case err == nil:
					fmt.Fprintln(out, "refused", call, time.Now().UnixMicro())
				}
				out.Flush() //nolint:errcheck // the parent may have gone
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// TestSaturatedProcessesAreNeverOver has four processes take from one bucket as fast as
// they can, while connections are cut, and one process is killed and another stopped for
// a while. All have the same clock.
func TestSaturatedProcessesAreNeverOver(t *testing.T) {
	server := dynamodbtest.Start(t)
	table := server.Table()
	const life = 4 * time.Second
	var history storetest.History
	var mu sync.Mutex
	var group sync.WaitGroup
	counts := map[string]int{}
	for i := range 4 {
		proxy := faultproxy.Start(t, server.Addr())
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperVariable+"="+dynamodbtest.Through(table, proxy.Addr())+" "+life.String())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it has ended, mostly
		group.Go(func() {
			defer cmd.Wait() //nolint:errcheck // one is killed
			n := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				words := strings.Fields(lines.Text())
				mu.Lock()
				counts[words[0]]++
				if words[0] == "took" && len(words) == 3 {
					call, _ := strconv.ParseInt(words[1], 10, 64)
					done, _ := strconv.ParseInt(words[2], 10, 64)
					history.Add(call, done, sluice.Token)
				}
				mu.Unlock()
				if words[0] == "error" {
					t.Errorf("process %d: %s", i, lines.Text())
				}
				switch n++; {
				case i == 0 && n%40 == 0:
					proxy.Cut()
				case i == 1 && n == 100:
					cmd.Process.Kill() //nolint:errcheck // it runs
				case i == 2 && n == 50:
					cmd.Process.Signal(syscall.SIGSTOP) //nolint:errcheck // it runs
					time.Sleep(300 * time.Millisecond)
					cmd.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it runs
				}
			}
		})
	}
	group.Wait()
	report, err := history.Report(sluice.MustParse(saturated))
	if err = errors.Join(err, report.Err()); err != nil {
		t.Error(err)
	}
	t.Logf("%v; %.1f %% of what may pass, the closest interval %s", counts, 100*report.Used(), report.Worst)
	if counts["took"] < 50 {
		t.Errorf("%d takes passed", counts["took"])
	}
}
