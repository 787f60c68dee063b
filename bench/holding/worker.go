package holding

import (
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/sluice-go/sluice/bench/keys"
)

// Worker is a process that makes takes. It says on w when it is ready, reads
// from r when to start, and writes to w what it saw. It returns what it holds
// when r ends.
func Worker(args []string, r io.Reader, w io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("a worker needs 2 arguments, not %d", len(args))
	}
	var o order
	if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
		return err
	}
	s, err := scenarioOf(o.Scenario)
	if err != nil {
		return err
	}
	sd, err := open(o.Side, o.Address, s, o.Callers)
	if err != nil {
		return err
	}
	total, err := o.run(s, sd, r, w)
	if err != nil {
		return errors.Join(err, sd.close())
	}
	total.Stats = sd.stats()
	if err := gob.NewEncoder(w).Encode(total); err != nil {
		return errors.Join(err, sd.close())
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return errors.Join(err, sd.close())
	}
	// What cannot be returned in time comes back when its hold expires.
	if err := sd.close(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (o *order) run(s *scenario, sd *side, r io.Reader, w io.Writer) (account, error) {
	callers := o.callers(s, sd)
	if s.warm {
		if err := o.greet(callers); err != nil {
			return account{}, err
		}
	}
	runtime.GC() // not in the run, if it can be helped
	if _, err := w.Write([]byte{1}); err != nil {
		return account{}, err
	}
	var word [8]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return account{}, err
	}
	stop, err := o.profile()
	if err != nil {
		return account{}, err
	}
	start := time.Unix(0, int64(binary.BigEndian.Uint64(word[:])))
	errs := make([]error, len(callers))
	var done sync.WaitGroup
	for i, c := range callers {
		done.Go(func() {
			c.begin(start)
			if s.pace > 0 {
				errs[i] = c.paced(o, i, s.pace)
			} else {
				errs[i] = c.busy(o.Duration)
			}
		})
	}
	done.Wait()
	stop()
	var total account
	for i, c := range callers {
		if errs[i] != nil {
			return total, errs[i]
		}
		total.add(&c.account)
		for _, part := range c.recorded {
			total.Admissions = append(total.Admissions, part...)
		}
	}
	return total, nil
}

// callers are ready to ask, each for keys of its own.
func (o *order) callers(s *scenario, sd *side) []*caller {
	sample := s.sample(o.Keys, o.Watch)
	all := make([]*caller, o.Callers)
	for i := range all {
		seed := uint64(o.Process*o.Callers+i) + 1
		c := &caller{ask: sd.caller(), asked: s.draw(o.Keys, o.Draws, seed), from: keys.Uniform(addresses, o.Draws, seed)}
		c.marks = s.marks(sample, c.asked, c.from)
		c.Watched = make([]uint32, len(sample))
		all[i] = c
	}
	return all
}

// greet asks once for each key.
func (o *order) greet(callers []*caller) error {
	all := keys.All(o.Keys)
	errs := make([]error, len(callers))
	var done sync.WaitGroup
	for i, c := range callers {
		done.Go(func() {
			for j := i; j < all.Len() && errs[i] == nil; j += len(callers) {
				_, errs[i] = c.ask(all.At(j), c.from.At(0))
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}

// profile starts a CPU profile, if one is wanted.
func (o *order) profile() (stop func(), err error) {
	if o.Profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(fmt.Sprintf("%s.%d", o.Profile, o.Process))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close() //nolint:errcheck // a profile that is cut short says so
	}, nil
}

func (a *account) add(b *account) {
	a.Asked += b.Asked
	a.Passed += b.Passed
	a.Local += b.Local
	a.Held.merge(&b.Held)
	a.All.merge(&b.All)
	a.Admissions = append(a.Admissions, b.Admissions...)
	if a.Watched == nil {
		a.Watched = make([]uint32, len(b.Watched))
	}
	for i, n := range b.Watched {
		a.Watched[i] += n
	}
	a.Stats.Held += b.Stats.Held
	a.Stats.Denied += b.Stats.Denied
	a.Stats.Exact += b.Stats.Exact
	a.Stats.Asked += b.Stats.Asked
	a.Stats.Granted += b.Stats.Granted
	a.Stats.Returned += b.Stats.Returned
	a.Stats.Distrusted += b.Stats.Distrusted
}
