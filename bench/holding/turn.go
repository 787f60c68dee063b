package holding

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/bench/contest"
)

// turn is one run of one side: all its processes, on a server without buckets.
type turn struct {
	account
	judgement
	took       time.Duration
	calls, all int64 // that the server counted
}

func (t *turn) rate() float64 { return float64(t.Asked) / t.took.Seconds() }

// standing is all turns of one side.
type standing struct {
	contest.Standing
	turns []turn
}

// median is that of a figure of each turn.
func (s *standing) median(figure func(*turn) float64) float64 {
	var all []float64
	for i := range s.turns {
		all = append(all, figure(&s.turns[i]))
	}
	return contest.Median(all)
}

// worst is the greatest of a figure of each turn.
func (s *standing) worst(figure func(*turn) float64) float64 {
	var all []float64
	for i := range s.turns {
		all = append(all, figure(&s.turns[i]))
	}
	return slices.Max(all)
}

// setting is a scenario as it is run.
type setting struct {
	*scenario
	sides     []string
	processes int
	duration  time.Duration
}

// compare lets the sides take turns.
func (o *Options) compare(srv *server, st setting) ([]standing, error) {
	standings := make([]standing, len(st.sides))
	for i := range standings {
		standings[i].Name = st.sides[i]
	}
	for round := range o.Rounds {
		for n := range st.sides {
			i := (n + round) % len(st.sides) // nobody is always the first
			t, err := o.turn(srv, st, st.sides[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", st.name, st.sides[i], err)
			}
			fmt.Fprintf(o.Log, "holding: %s: %s: %.0f/s, %.4f calls each\n", st.name, st.sides[i], t.rate(), float64(t.calls)/float64(t.Asked))
			standings[i].Rates = append(standings[i].Rates, t.rate())
			standings[i].turns = append(standings[i].turns, t)
		}
	}
	return standings, nil
}

func (o *Options) turn(srv *server, st setting, side string) (t turn, err error) {
	if err := srv.clear(); err != nil {
		return t, err
	}
	ord := order{
		Scenario: st.name, Side: side, Address: srv.address, Duration: st.duration, Processes: st.processes,
		Callers: o.Callers, Keys: o.keys(st.scenario), Draws: o.Draws, Watch: o.Watch, Profile: o.profile(st.name, side),
	}
	crew, err := ord.muster()
	if err != nil {
		return t, err
	}
	accounts, err := crew.work(func() (err error) {
		t.calls, t.all, err = srv.commands()
		return err
	})
	if err != nil {
		return t, err
	}
	t.took = st.duration
	if t.judgement, err = judge(st.scenario, st.sample(ord.Keys, ord.Watch), accounts, st.duration); err != nil {
		return t, err
	}
	for i := range accounts {
		accounts[i].Admissions = nil // judged
		t.add(&accounts[i])
	}
	return t, nil
}
