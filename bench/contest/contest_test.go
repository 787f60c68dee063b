package contest

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/bench/keys"
)

func TestRunCountsRoundsAndAllowed(t *testing.T) {
	half := func() Take {
		n := 0
		return func(string) (bool, error) { n++; return n%2 == 0, nil }
	}
	all := func() Take { return func(string) (bool, error) { return true, nil } }
	p := Plan{Rounds: 3, Slot: time.Millisecond, Sequences: []keys.Sequence{keys.All(3), keys.All(5)}}
	standings, err := p.Run([]Contender{{"half", half}, {"all", all}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name    string
		allowed float64
	}{{"half", 0.5}, {"all", 1}} {
		s := standings[i]
		if s.Name != want.name || len(s.Rates) != 3 || s.Rate() <= 0 || len(s.CPU) != 3 {
			t.Errorf("standing %d: %+v", i, s)
		}
		if s.Allowed < want.allowed-0.01 || s.Allowed > want.allowed {
			t.Errorf("%s: allowed %.3f, want %.3f", s.Name, s.Allowed, want.allowed)
		}
	}
}

func TestRunReportsAnErrorWithTheContender(t *testing.T) {
	broken := errors.New("broken")
	p := Plan{Rounds: 1, Slot: time.Hour, Sequences: []keys.Sequence{keys.All(1)}}
	_, err := p.Run([]Contender{{"x", func() Take { return func(string) (bool, error) { return false, broken } }}})
	if !errors.Is(err, broken) || err.Error() != "x: broken" {
		t.Errorf("got %v", err)
	}
}

func TestRatioIsOfRoundsNotOfMedians(t *testing.T) {
	// The machine was slow in the second round, for both.
	a := Standing{Rates: []float64{20, 2, 40}}
	b := Standing{Rates: []float64{10, 1, 20}}
	if r := a.Ratio(&b); r != 2 {
		t.Errorf("got %v, want 2", r)
	}
	c := Standing{Rates: []float64{10, 4, 30}}
	if low, high := c.Spread(&b); low != 1 || high != 4 {
		t.Errorf("spread of three: got %v to %v", low, high)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median: got %v", m)
	}
	slow := Standing{Name: "slow", Rates: []float64{1, 9, 1}}
	if c := a.Closest([]Standing{slow, b}); c.Rate() != 10 {
		t.Errorf("closest: got %v", c)
	}
}
