// Package saturate is the suite of several real processes that ask one bucket
// for far more than it has: nothing may pass beyond the bound in any interval,
// and nearly everything that may pass has to.
package saturate

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/storetest"

	"github.com/sluice-go/sluice/bench/redisserver"
	"github.com/sluice-go/sluice/bench/report"
)

// Options are how much is measured.
type Options struct {
	Processes int
	Callers   int // in each process
	Duration  time.Duration
	Log       io.Writer
}

// Full is what the benchmarks page is made of.
func Full(log io.Writer) Options {
	return Options{Processes: 4, Callers: 16, Duration: 10 * time.Second, Log: log}
}

// Quick runs everything for a moment.
func Quick(log io.Writer) Options {
	return Options{Processes: 2, Callers: 4, Duration: 300 * time.Millisecond, Log: log}
}

// limit is what all processes share.
var limit = sluice.Per(1000, time.Second).WithBurst(500)

// shared is a store that several processes can use.
type shared struct {
	title  string
	open   func(address string) (sluice.Store, error)
	server func() (address string, stop func() error, err error)
}

var stores = map[string]shared{
	"redis":    {"Redis", openRedis, startRedis},
	"postgres": {"PostgreSQL", openPostgres, startPostgres},
}

func startRedis() (address string, stop func() error, err error) {
	s, err := redisserver.Start()
	if err != nil {
		return "", nil, err
	}
	return s.Address, s.Close, nil
}

func startPostgres() (address string, stop func() error, err error) {
	s, err := postgrestest.New("fsync=on", "synchronous_commit=on")
	if err != nil {
		return "", nil, err
	}
	return s.Address("postgres"), s.Close, nil
}

// Run saturates each store.
func Run(o Options) (*report.Suite, error) {
	s := &report.Suite{
		Name:  "saturate",
		Title: "Several processes, saturated",
		Intro: fmt.Sprintf(`%d processes with %d callers each ask one bucket of %s, on one server, without a
break for %s. Each records when it called and when it was answered; the
histories are put together and searched for the interval that comes closest to
the bound.`, o.Processes, o.Callers, limit, o.Duration),
	}
	t := report.Table{
		Title:  "What passed",
		Header: []string{"store", "asked", "passed", "may pass", "share", "closest interval: passed, may pass"},
	}
	for _, name := range []string{"redis", "postgres"} {
		st := stores[name]
		fmt.Fprintf(o.Log, "saturate: %s\n", name)
		r, err := run(o, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w := r.worst
		t.Add(st.title, report.Count(float64(r.asked)), sluice.Thousandths(r.passed).String(), sluice.Thousandths(r.bound).String(), fmt.Sprintf("%.2f %%", 100*r.share()),
			fmt.Sprintf("%s, %s in %s", sluice.Thousandths(w.Net), sluice.Thousandths(w.Bound), time.Duration(w.End-w.Start)*time.Microsecond))
		s.Claims = append(s.Claims,
			report.Claim{What: st.title + ": intervals over the bound", Want: "none", Got: r.verdict(), Met: w.Net <= w.Bound},
			report.AtLeast(st.title+": percent of what may pass that did", 99, 100*r.share()))
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

type result struct {
	asked         int
	passed, bound int64 // thousandths
	worst         storetest.Interval
}

func (r *result) share() float64 { return float64(r.passed) / float64(r.bound) }

func (r *result) verdict() string {
	if r.worst.Net > r.worst.Bound {
		return r.worst.String()
	}
	return "none"
}

func run(o Options, store string) (r result, err error) {
	address, stop, err := stores[store].server()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	// The first to open creates what the others find.
	first, err := stores[store].open(address)
	if err != nil {
		return r, err
	}
	defer first.Close() //nolint:errcheck // nothing was asked of it

	// Time enough for the processes to start and connect.
	ord := order{store: store, address: address, start: time.Now().Add(2 * time.Second), duration: o.Duration, callers: o.Callers}
	accounts, err := ord.send(o.Processes)
	if err != nil {
		return r, err
	}
	var h storetest.History
	for _, a := range accounts {
		r.asked += a.Asked
		h.Events = append(h.Events, a.Events...)
	}
	checked, err := h.Report(limit)
	if err != nil {
		return r, err
	}
	r.worst, r.passed = checked.Worst, checked.Whole.Net
	r.bound = limit.Capacity().Thousandths() + int64(float64(limit.Amount.Thousandths())*o.Duration.Seconds()/limit.Period.Seconds())
	return r, nil
}

// send starts the workers and collects their accounts.
func (o *order) send(processes int) ([]account, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// A worker that hangs is made to say where.
	ctx, cancel := context.WithDeadline(context.Background(), o.start.Add(o.duration+30*time.Second))
	defer cancel()
	workers, outputs := make([]*exec.Cmd, processes), make([]bytes.Buffer, processes)
	for i := range workers {
		w := exec.CommandContext(ctx, self, o.args()...)
		w.Stdout, w.Stderr = &outputs[i], os.Stderr
		w.Cancel = func() error { return w.Process.Signal(syscall.SIGQUIT) }
		w.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := w.Start(); err != nil {
			return nil, err
		}
		workers[i] = w
	}
	accounts := make([]account, processes)
	var errs []error
	for i, w := range workers {
		if err := w.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("worker %d: %w", i, err))
			continue
		}
		errs = append(errs, gob.NewDecoder(&outputs[i]).Decode(&accounts[i]))
	}
	return accounts, errors.Join(errs...)
}
