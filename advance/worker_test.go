package advance_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/postgres"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/redis"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/storetest"
)

// job is what a process is to do: ask for far more of each limit than there
// is, and write down what it got.
type job struct {
	address string // of the store
	file    string // for what it got
	life    time.Duration
	limits  []string
}

const jobVariables = "SLUICE_ADVANCE_TEST_"

// environ hands the job to another process.
func (j job) environ() []string {
	return append(os.Environ(), jobVariables+"ADDRESS="+j.address, jobVariables+"FILE="+j.file,
		jobVariables+"LIFE="+j.life.String(), jobVariables+"LIMITS="+strings.Join(j.limits, ","))
}

// handedJob is the job that another process has handed to this one.
func handedJob() (j job, ok bool, err error) {
	j.address, ok = os.LookupEnv(jobVariables + "ADDRESS")
	if !ok {
		return j, false, nil
	}
	j.file = os.Getenv(jobVariables + "FILE")
	j.limits = strings.Split(os.Getenv(jobVariables+"LIMITS"), ",")
	j.life, err = time.ParseDuration(os.Getenv(jobVariables + "LIFE"))
	return j, true, err
}

// TestWorkerProcess is what the other processes run. In this one it checks
// that a job arrives as it was handed over.
func TestWorkerProcess(t *testing.T) {
	j, ok, err := handedJob()
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		if err := j.work(); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := job{"redis://localhost", "file", time.Second, []string{"1/s", "2/s fixed"}}
	for _, v := range want.environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, jobVariables) {
			t.Setenv(name, value)
		}
	}
	if got, ok, err := handedJob(); fmt.Sprint(got) != fmt.Sprint(want) || !ok || err != nil {
		t.Errorf("got %v, %t, %v", got, ok, err)
	}
}

// open connects to the store at an address.
func open(ctx context.Context, address string) (sluice.Store, error) {
	const timeout = 2 * time.Second
	if strings.HasPrefix(address, "redis:") {
		return redislimits.Open(ctx, redis.Config{Address: address, Log: quiet, Timeout: timeout})
	}
	return pglimits.Open(ctx, postgres.Config{Address: address, Log: quiet, Timeout: timeout})
}

func (j job) work() error {
	ctx := context.Background()
	inner, err := open(ctx, j.address)
	if err != nil {
		return err
	}
	store, err := advance.New(inner, advance.Config{Log: quiet})
	if err != nil {
		return err
	}
	defer store.Close()
	out, err := os.Create(j.file)
	if err != nil {
		return err
	}
	defer out.Close()
	l := sluice.New(store)
	end := time.Now().Add(j.life)
	const callers = 4
	errs := make([]error, callers*len(j.limits))
	var wg sync.WaitGroup
	for i := range errs {
		n := i % len(j.limits)
		limit, err := sluice.Parse(j.limits[n])
		if err != nil {
			return err
		}
		dm := sluice.Demand{Key: sluice.Key{Entity: fmt.Sprint("hot", n)}, Limit: limit}
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(end) {
				call := time.Now().UnixMicro()
				d, err := l.Take(ctx, dm)
				returned := time.Now().UnixMicro()
				switch {
				case err == nil && d.Allowed:
					errs[i] = writeEvent(out, n, call, returned, d.Granted.Thousandths())
				case err != nil && !errors.Is(err, sluice.ErrUnknown) && !errors.Is(err, sluice.ErrUnavailable):
					errs[i] = err
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// writeEvent writes what was admitted of the limit of that number.
func writeEvent(out io.Writer, limit int, call, returned int64, granted int64) error {
	var b []byte
	for _, n := range [...]int64{int64(limit), call, returned, granted} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	_, err := out.Write(b) // one write, so that none is torn
	return err
}

// readEvents adds a process's events to the histories. A process that was
// killed may have left part of one at the end.
func readEvents(t *testing.T, file string, histories []storetest.History) (n int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		var e [4]int64
		err := binary.Read(in, binary.LittleEndian, &e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		histories[e[0]].Add(e[1], e[2], e[3])
		n++
	}
}
