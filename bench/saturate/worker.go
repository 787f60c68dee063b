package saturate

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/redis"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/storetest"
)

// WorkerCommand is the first argument of a process that is to be a worker.
const WorkerCommand = "saturate-worker"

// order is what a worker is told, as arguments.
type order struct {
	store    string
	address  string
	start    time.Time
	duration time.Duration
	callers  int
}

func (o *order) args() []string {
	return []string{WorkerCommand, o.store, o.address,
		strconv.FormatInt(o.start.UnixMicro(), 10), o.duration.String(), strconv.Itoa(o.callers)}
}

func parseOrder(args []string) (o order, err error) {
	if len(args) != 6 {
		return o, fmt.Errorf("a worker needs 6 arguments, not %d", len(args))
	}
	o.store, o.address = args[1], args[2]
	start, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return o, err
	}
	o.start = time.UnixMicro(start)
	if o.duration, err = time.ParseDuration(args[4]); err != nil {
		return o, err
	}
	o.callers, err = strconv.Atoi(args[5])
	return o, err
}

// account is what a worker reports.
type account struct {
	Asked  int
	Events []storetest.Event
}

// Worker is a process that asks one bucket for tokens without a break, and
// writes what it got to w. Its clock is the store's, because all of them run
// on one machine.
func Worker(args []string, w io.Writer) error {
	o, err := parseOrder(args)
	if err != nil {
		return err
	}
	store, err := stores[o.store].open(o.address)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // everything it was asked has been answered
	total, err := o.saturate(sluice.New(store))
	if err != nil {
		return err
	}
	return gob.NewEncoder(w).Encode(total)
}

func (o *order) saturate(limiter *sluice.Limiter) (account, error) {
	accounts, errs := make([]account, o.callers), make([]error, o.callers)
	var done sync.WaitGroup
	time.Sleep(time.Until(o.start))
	for i := range o.callers {
		done.Go(func() { accounts[i], errs[i] = o.ask(limiter) })
	}
	done.Wait()
	var total account
	for i := range accounts {
		if errs[i] != nil {
			return total, errs[i]
		}
		total.Asked += accounts[i].Asked
		total.Events = slices.Concat(total.Events, accounts[i].Events)
	}
	return total, nil
}

func (o *order) ask(limiter *sluice.Limiter) (a account, err error) {
	t := &sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Entity: "everybody"}, Limit: limit}}}
	d := &sluice.Decision{}
	end := o.start.Add(o.duration)
	for call := time.Now(); call.Before(end); {
		if err := limiter.Decide(context.Background(), t, d); err != nil {
			return a, err
		}
		returned := time.Now()
		a.Asked++
		if d.Allowed {
			a.Events = append(a.Events, storetest.Event{
				Call: call.UnixMicro(), Return: returned.UnixMicro(), Amount: d.Results[0].Consumed.Thousandths(),
			})
		}
		call = returned
	}
	return a, nil
}

func openPostgres(address string) (sluice.Store, error) {
	return pglimits.Open(context.Background(), postgres.Config{Address: address})
}

func openRedis(address string) (sluice.Store, error) {
	return redislimits.Open(context.Background(), redis.Config{Address: "redis://" + address, Timeout: 10 * time.Second})
}
