package holding

import (
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/advance"
)

// WorkerCommand is the first argument of a process that is to be a worker.
const WorkerCommand = "holding-worker"

// order is what a worker is told, as its second argument.
type order struct {
	Scenario  string
	Side      string
	Address   string // of the server
	Duration  time.Duration
	Processes int
	Process   int // which of them
	Callers   int // in each process
	Keys      int
	Draws     int
	Watch     int
	Profile   string // where to write a CPU profile, if anywhere
}

// account is what a worker reports.
type account struct {
	Asked, Passed, Local int64
	Held                 histogram // latency of decisions with held tokens
	All                  histogram
	Watched              []uint32 // how often each watched bucket was asked
	Admissions           []admission
	Stats                advance.Stats
}

// admission is one of a watched bucket. Times are in microseconds since the
// start, on the clock of the machine, which is the store's.
type admission struct {
	Bucket       uint32
	Call, Return uint32
}

// crew is processes that have been started and wait for the word to go.
type crew struct {
	members []*member
}

type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

// muster starts the processes and waits until they are ready: connected, and
// with the keys they will ask for in memory.
func (o order) muster() (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &crew{}
	for i := range o.Processes {
		o.Process = i
		m, err := o.start(self)
		if err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
		c.members = append(c.members, m)
	}
	for i, m := range c.members {
		if _, err := io.ReadFull(m.out, make([]byte, 1)); err != nil {
			return nil, errors.Join(fmt.Errorf("worker %d is not ready: %w", i, err), c.dismiss())
		}
	}
	return c, nil
}

func (o *order) start(program string) (*member, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, WorkerCommand, string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &member{cmd, in, out}, cmd.Start()
}

// work has everybody start at the same moment, and collects the accounts.
// Before they may return what they hold, over is called.
func (c *crew) work(over func() error) ([]account, error) {
	start := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(50*time.Millisecond).UnixNano()))
	for _, m := range c.members {
		if _, err := m.in.Write(start); err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
	}
	accounts := make([]account, len(c.members))
	for i, m := range c.members {
		if err := gob.NewDecoder(m.out).Decode(&accounts[i]); err != nil {
			return nil, errors.Join(fmt.Errorf("worker %d: %w", i, err), c.dismiss())
		}
	}
	errs := []error{over()}
	for _, m := range c.members {
		errs = append(errs, m.in.Close())
	}
	for i, m := range c.members {
		if err := m.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("worker %d: %w", i, err))
		}
	}
	return accounts, errors.Join(errs...)
}

// dismiss ends processes that are of no use any more.
func (c *crew) dismiss() error {
	var errs []error
	for _, m := range c.members {
		if err := m.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		m.cmd.Wait() //nolint:errcheck // it was killed
	}
	return errors.Join(errs...)
}
