// Package contest measures contenders against each other in one run: they
// take turns, round after round, and are compared within each round, so that
// whatever else the machine does falls on all of them alike.
package contest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/bench/keys"
)

// Take asks for one token of a key and says whether it was allowed.
type Take func(key string) (bool, error)

// Contender is one side. Caller makes a take for one goroutine, which may
// keep buffers.
type Contender struct {
	Name   string
	Caller func() Take
}

// Plan is how contenders are measured.
type Plan struct {
	Rounds int
	Slot   time.Duration // how long each runs in each round

	// Sequences has what each caller asks for; their number is the number
	// of callers.
	Sequences []keys.Sequence
}

// Standing is what one contender reached.
type Standing struct {
	Name    string
	Rates   []float64 // takes per second, one for each round
	CPU     []float64 // nanoseconds of this process's processor time per take
	Allowed float64   // share of the takes
}

// Rate is the median of the rounds.
func (s *Standing) Rate() float64 { return Median(s.Rates) }

// Ratio is how many times as many takes s did as other: the median of what it
// was in each round.
func (s *Standing) Ratio(other *Standing) float64 { return Median(s.ratios(other)) }

// Spread is between what half of those ratios are.
func (s *Standing) Spread(other *Standing) (low, high float64) {
	sorted := slices.Sorted(slices.Values(s.ratios(other)))
	n := len(sorted)
	return sorted[n/4], sorted[n-1-n/4]
}

func (s *Standing) ratios(other *Standing) []float64 {
	ratios := make([]float64, len(s.Rates))
	for i := range ratios {
		ratios[i] = s.Rates[i] / other.Rates[i]
	}
	return ratios
}

// Run lets the contenders take turns and answers their standings in the order
// given.
func (p *Plan) Run(contenders []Contender) ([]Standing, error) {
	standings := make([]Standing, len(contenders))
	callers := make([][]Take, len(contenders))
	for i, c := range contenders {
		standings[i].Name = c.Name
		for range p.Sequences {
			callers[i] = append(callers[i], c.Caller())
		}
	}
	var takes, allowed = make([]int64, len(contenders)), make([]int64, len(contenders))
	for round := range p.Rounds {
		runtime.GC() // not in somebody's turn, if it can be helped
		for turn := range contenders {
			i := (turn + round) % len(contenders) // nobody is always the first
			s, err := p.slot(callers[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i].Name, err)
			}
			standings[i].Rates = append(standings[i].Rates, float64(s.takes)/s.took.Seconds())
			standings[i].CPU = append(standings[i].CPU, float64(s.cpu)/float64(max(s.takes, 1)))
			takes[i] += s.takes
			allowed[i] += s.allowed
		}
	}
	for i := range standings {
		standings[i].Allowed = float64(allowed[i]) / float64(max(takes[i], 1))
	}
	return standings, nil
}

type score struct {
	takes, allowed int64
	took, cpu      time.Duration
}

// slot runs one contender for a while, each caller over its own sequence from
// the start.
func (p *Plan) slot(callers []Take) (score, error) {
	var (
		stop   atomic.Bool
		ready  sync.WaitGroup
		done   sync.WaitGroup
		begin  = make(chan struct{})
		scores = make([]score, len(callers))
		errs   = make([]error, len(callers))
	)
	for i, take := range callers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			scores[i], errs[i] = run(take, p.Sequences[i], &stop)
		})
	}
	ready.Wait()
	before, err := processorTime()
	if err != nil {
		return score{}, err
	}
	start := time.Now()
	timer := time.AfterFunc(p.Slot, func() { stop.Store(true) })
	defer timer.Stop()
	close(begin)
	done.Wait()

	total := score{took: time.Since(start)}
	after, err := processorTime()
	if err != nil {
		return score{}, err
	}
	total.cpu = after - before
	for i := range scores {
		if errs[i] != nil {
			return total, errs[i]
		}
		total.takes += scores[i].takes
		total.allowed += scores[i].allowed
	}
	return total, nil
}

func run(take Take, seq keys.Sequence, stop *atomic.Bool) (s score, err error) {
	for i, n := 0, seq.Len(); !stop.Load(); i++ {
		if i == n {
			i = 0
		}
		ok, err := take(seq.At(i))
		if err != nil {
			return s, err
		}
		s.takes++
		if ok {
			s.allowed++
		}
	}
	return s, nil
}

// Closest is the one of others that comes closest to s, or passes it by most.
func (s *Standing) Closest(others []Standing) *Standing {
	closest := &others[0]
	for i := range others {
		if s.Ratio(&others[i]) < s.Ratio(closest) {
			closest = &others[i]
		}
	}
	return closest
}

// processorTime is what this process has used so far.
func processorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// Median is the middle of values, or the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
