package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/schedule"
)

// slotWorker runs a command for each event that is due.
type slotWorker struct {
	*call
	schedule.Offer
	command []string
	mu      sync.Mutex // of what is printed
}

func slotWorkCommand() *cobra.Command {
	w := slotWorker{Offer: schedule.Offer{Life: 30 * time.Second}}
	var once bool
	return online(&cobra.Command{
		Use: "work PLAN COMMAND...", Short: "run a command, given after --, for each event of a plan that is due",
		Long: `The command gets the payload on standard input, and SLUICE_EVENT, SLUICE_FENCE and
SLUICE_ATTEMPT in its environment. If it exits with 0 the event is done; otherwise it is
tried again, up to five times, and what it wrote to standard error last is the reason. A
command whose worker dies is run again, so it must bear that. It stops with TERM and INT,
after the commands that are running.`,
		Example: "sluice slots work mail --concurrency 4 -- ./send-mail",
	}, func(f *pflag.FlagSet) {
		f.IntVar(&w.Max, "concurrency", 1, "`number` of commands at a time")
		f.StringVar(&w.Worker, "worker", "", "`name` of this worker in the audit log (default the host and process)")
		f.BoolVar(&once, "once", false, "stop when nothing is due")
	}, func(ctx context.Context, c *call) error {
		if len(c.args) < 2 {
			return c.wrong("want a plan, -- and a command")
		}
		if w.Max < 1 || w.Max > 1000 {
			return c.wrong("--concurrency: must be 1 to 1000")
		}
		if _, err := exec.LookPath(c.args[1]); err != nil { // or every event would fail by it
			return c.wrong("%v", err)
		}
		if w.Worker == "" {
			host, _ := os.Hostname() //nolint:errcheck // then it has none
			w.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
		}
		w.call, w.Plan, w.command = c, c.arg(0), c.args[1:]
		return w.run(ctx, once)
	})
}

// run works until ctx ends, or nothing is due if it is to stop then.
func (w *slotWorker) run(ctx context.Context, once bool) error {
	for ctx.Err() == nil {
		slots, err := w.client.WorkSlots(ctx, w.Offer)
		if err != nil && ctx.Err() == nil {
			return orCreate(err)
		}
		var running sync.WaitGroup
		for i := range slots {
			running.Go(func() { w.work(context.WithoutCancel(ctx), &slots[i]) })
		}
		running.Wait()
		if len(slots) == 0 {
			if once {
				return nil
			}
			backoff.Sleep(ctx, time.Second)
		}
	}
	return nil
}

// work runs the command for one event and tells the server how it went.
func (w *slotWorker) work(ctx context.Context, s *schedule.Slot) {
	err := w.execute(ctx, s)
	if err == nil {
		err = w.client.CompleteSlot(ctx, s.Event, s.Fence, "")
	} else if _, failed := w.client.FailSlot(ctx, s.Event, s.Fence, err.Error()); failed != nil {
		err = errors.Join(err, failed)
	}
	to, how := w.stdout, "done"
	if err != nil {
		to, how = w.stderr, err.Error()
	}
	fmt.Fprintf(&shared{&w.mu, to}, "%s: %s\n", printable(s.Event), how) //nolint:errcheck // the server knows
}

// execute runs the command, and extends the claim until it ends.
func (w *slotWorker) execute(ctx context.Context, s *schedule.Slot) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for backoff.Sleep(ctx, w.Life/3) {
			if err := w.client.ExtendSlot(ctx, s.Event, s.Fence, w.Life); errors.Is(err, schedule.ErrClaimLost) {
				cancel(err)
			}
		}
	}()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, w.command[0], w.command[1:]...)
	cmd.Stdin = bytes.NewReader(s.Payload)
	cmd.Stderr = io.MultiWriter(&said, &shared{&w.mu, w.stderr})
	cmd.Stdout = &shared{&w.mu, w.stdout}
	cmd.Env = append(os.Environ(), "SLUICE_EVENT="+s.Event, fmt.Sprint("SLUICE_FENCE=", s.Fence), fmt.Sprint("SLUICE_ATTEMPT=", s.Attempts))
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return nil
}

// shared is a writer that several write to.
type shared struct {
	mu *sync.Mutex
	io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Writer.Write(b)
}
