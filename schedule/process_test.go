package schedule_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/postgres/slotstore"
	"github.com/sluice-go/sluice/schedule"
)

// The sizes of the tests across processes. The full ones take minutes:
//
//	go test ./schedule -run 'KilledWriter|InProcesses' -v -slots.events 200000 -slots.seconds 60
var (
	events  = flag.Int("slots.events", 12_000, "events that TestKilledWriter assigns")
	seconds = flag.Int("slots.seconds", 6, "how long TestDispatchersInProcesses dispatches")
)

// Tests across processes start this test binary again with helperVariable,
// which tells it what to do.
const helperVariable = "SLUICE_SCHEDULE_TEST_HELPER"

// helper is what another process is to do.
type helper struct {
	What    string // "write" or "dispatch"
	Address string
	Process int
	Batch   int // events at a time; 1 for one by one
	Events  int // of all processes
	Seconds int

	Receiver string // where dispatched events are sent to; "" for nowhere
}

func TestMain(m *testing.M) {
	if text := os.Getenv(helperVariable); text != "" {
		var h helper
		err := json.Unmarshal([]byte(text), &h)
		if err == nil {
			err = h.run(os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "helper:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	postgrestest.Main(m)
}

func (h *helper) run(out io.Writer) error {
	ctx := context.Background()
	store, err := slotstore.Open(ctx, postgres.Config{Address: h.Address, MaxConns: writersPerProcess + 2, Timeout: 20e9})
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := schedule.New(schedule.Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	if h.What == "write" {
		return h.write(ctx, s, w)
	}
	buckets, err := limitstore.Open(ctx, postgres.Config{Address: h.Address})
	if err != nil {
		return err
	}
	defer buckets.Close()
	return h.dispatch(ctx, s, sluice.New(buckets), w)
}

// start starts a process; its lines come from the scanner.
func (h helper) start(t *testing.T) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it may be over
	return cmd, bufio.NewScanner(out)
}

// shared is a store and scheduler of this process on a fresh database.
func shared(t *testing.T) (address string, store *slotstore.Store, s *schedule.Scheduler) {
	t.Helper()
	address = postgrestest.Database(t)
	store, err := slotstore.Open(t.Context(), postgres.Config{Address: address, Timeout: 20e9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // it answers nil
	s, err = schedule.New(schedule.Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return address, store, s
}
