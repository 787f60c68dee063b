package sluice_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// wantField checks that err names a field, with its value and a reason.
func wantField(t *testing.T, what string, err error, want string) {
	t.Helper()
	var fe *sluice.FieldError
	if !errors.As(err, &fe) || err.Error() != want {
		t.Errorf("%s:\n got %v\nwant %s", what, err, want)
	}
	if fe != nil && (fe.Field == "" || fe.Value == nil || fe.Reason == "") {
		t.Errorf("%s: %#v", what, fe)
	}
}

func TestTakesThatAreRefusedAsWrong(t *testing.T) {
	l := open(t)
	ctx := context.Background()
	good := demand("rpm", "10/minute", 1)
	with := func(change func(*sluice.Demand)) []sluice.Demand {
		d := good
		change(&d)
		return []sluice.Demand{d}
	}
	long := strings.Repeat("k", 256)
	shown := strings.Repeat("k", 32) + "…"
	for _, c := range []struct {
		name string
		take sluice.Take
		want string
	}{
		{"none", sluice.Take{}, "take.demands: 0: must be 1 to 64"},
		{"too many", sluice.Take{Demands: make([]sluice.Demand, 65)}, "take.demands: 65: must be 1 to 64"},
		{"negative cost", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Cost = sluice.Thousandths(-1) })},
			"take.demands[0].cost: -0.001: must be above 0 and at most 1000000000000"},
		{"overflowing cost", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Cost = sluice.Thousandths(math.MaxInt64) })},
			"take.demands[0].cost: 9223372036854775.807: must be above 0 and at most 1000000000000"},
		{"twice the same", sluice.Take{Demands: []sluice.Demand{good, demand("tpm", "5/s", 1), good}},
			"take.demands[2].key: ann/api/rpm: names the same bucket as demands[0]"},
		{"long namespace", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Key.Namespace = long })},
			"take.demands[0].key.namespace: " + shown + ": must be at most 255 bytes long"},
		{"long entity", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Key.Entity = long })},
			"take.demands[0].key.entity: " + shown + ": must be at most 255 bytes long"},
		{"long resource", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Key.Resource = long })},
			"take.demands[0].key.resource: " + shown + ": must be at most 255 bytes long"},
		{"long limit", sluice.Take{Demands: with(func(d *sluice.Demand) { d.Key.Limit = long })},
			"take.demands[0].key.limit: " + shown + ": must be at most 255 bytes long"},
		{"long id", sluice.Take{Demands: []sluice.Demand{good}, ID: strings.Repeat("k", 129)},
			"take.id: " + shown + ": must be at most 128 bytes long"},
		{"long life", sluice.Take{Demands: []sluice.Demand{good}, Lease: true, Keep: 8 * day},
			"take.keep: 192h0m0s: must be between 0 and 168h0m0s"},
		{"negative life", sluice.Take{Demands: []sluice.Demand{good}, Keep: -1},
			"take.keep: -1ns: must be between 0 and 168h0m0s"},
		{"up to unequal costs", sluice.Take{Demands: []sluice.Demand{good, demand("tpm", "9/s", 2)}, UpTo: true},
			"take.demands[1].cost: 2: a take up to an amount needs the same cost in every demand"},
		{"place in flight without a lease", sluice.Take{Demands: []sluice.Demand{demand("parallel", "5 concurrent", 1)}},
			"take.demands[0].limit: concurrency: needs a lease: use Acquire, so that the place is freed again"},
		{"the same with an id", sluice.Take{Demands: []sluice.Demand{demand("parallel", "5 concurrent", 1)}, ID: "x"},
			"take.demands[0].limit: concurrency: needs a lease: use Acquire, so that the place is freed again"},
		{"half a place", sluice.Take{Lease: true, Demands: []sluice.Demand{
			{Key: good.Key, Limit: sluice.MustParse("5 concurrent"), Cost: sluice.Thousandths(sluice.Token / 2)}}},
			"take.demands[0].cost: 0.5: concurrency is counted in whole tokens"},
		{"a peek with a lease", sluice.Take{Demands: []sluice.Demand{good}, Lease: true, Peek: true},
			"take.peek: true: a peek has no lease"},
		{"no limit", sluice.Take{Demands: []sluice.Demand{{Key: good.Key}}},
			"limit.amount: 0: must be above 0 and at most 1000000000000"},
	} {
		var d sluice.Decision
		wantField(t, c.name, l.Decide(ctx, &c.take, &d), c.want)
	}
	_, err := l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{good}, Peek: true})
	wantField(t, "a waiting peek", err, "take.peek: true: a peek cannot wait")
	if n := remaining(t, l, good); n != 10*sluice.Token {
		t.Errorf("%s are left after takes that were wrong", sluice.Thousandths(n))
	}
}

func TestCostOfNothingIsOne(t *testing.T) {
	l := open(t)
	d := mustTake(t, l, sluice.Demand{Limit: sluice.MustParse("10/minute")})
	if d.Granted.Thousandths() != sluice.Token || d.Results[0].Remaining.Thousandths() != 9*sluice.Token {
		t.Errorf("%+v", d)
	}
}

func TestTakeFillsInIDAndLife(t *testing.T) {
	l := open(t)
	var d sluice.Decision
	for _, c := range []struct {
		take sluice.Take
		keep time.Duration
		id   bool
	}{
		{sluice.Take{}, 0, false},
		{sluice.Take{ID: "once"}, time.Minute, true},
		{sluice.Take{Lease: true}, time.Minute, true},
		{sluice.Take{Lease: true, Keep: 1}, time.Microsecond, true},
		{sluice.Take{Lease: true, Keep: 1_500_700}, 1500 * time.Microsecond, true},
	} {
		c.take.Demands = []sluice.Demand{demand("rpm", "10/minute", 1)}
		if err := l.Decide(context.Background(), &c.take, &d); err != nil {
			t.Fatal(err)
		}
		if c.take.Keep != c.keep || (c.take.ID != "") != c.id || d.ID != c.take.ID {
			t.Errorf("%+v: kept for %s with id %q", c.take, c.take.Keep, d.ID)
		}
	}
}

func TestAdjustmentsThatAreRefusedAsWrong(t *testing.T) {
	l := open(t)
	good := demand("rpm", "10/minute", 1)
	much, long := good, good
	much.Cost = sluice.Thousandths(-sluice.MaxThousandths - 1)
	long.Key.Entity = strings.Repeat("k", 300)
	for _, c := range []struct {
		changes []sluice.Demand
		want    string
	}{
		{nil, "adjust.changes: 0: must be 1 to 64"},
		{make([]sluice.Demand, 65), "adjust.changes: 65: must be 1 to 64"},
		{[]sluice.Demand{much}, "adjust.changes[0].cost: -1000000000000.001: must be between -1000000000000 and 1000000000000"},
		{[]sluice.Demand{good, good}, "adjust.changes[1].key: ann/api/rpm: names the same bucket twice"},
		{[]sluice.Demand{long}, "adjust.changes[0].key.entity: " + strings.Repeat("k", 32) + "…: must be at most 255 bytes long"},
		{[]sluice.Demand{demand("parallel", "5 concurrent", 1)},
			"adjust.changes[0].limit: 5 concurrent: a concurrency limit is adjusted by its lease"},
	} {
		_, err := l.Adjust(context.Background(), c.changes...)
		wantField(t, "adjust", err, c.want)
	}
	wantField(t, "reset", l.Reset(context.Background(), make([]sluice.Key, 65)...), "reset.keys: 65: must be at most 64")
	wantField(t, "reset", l.Reset(context.Background(), long.Key),
		"reset.keys[0]: key.entity: "+strings.Repeat("k", 32)+"…: must be at most 255 bytes long")
	if _, err := l.List(context.Background(), sluice.Query{Max: 1001}); err == nil || err.Error() != "query.max: must be 1 to 1000, or 0 for 100" {
		t.Errorf("list: %v", err)
	}
}

// TestRefusalsConsumeNothing: the second limit refuses, so the first keeps
// its tokens.
func TestRefusalsConsumeNothing(t *testing.T) {
	l := open(t)
	wide, narrow := demand("wide", "100/hour", 3), demand("narrow", "5/hour", 3)
	mustTake(t, l, wide, narrow)
	d, err := l.Take(context.Background(), wide, narrow)
	if err != nil || d.Allowed || d.Decider != 1 || d.Granted.Thousandths() != 0 || !d.Results[0].Fits || d.Results[1].Fits {
		t.Errorf("%+v, %v", d, err)
	}
	if n := remaining(t, l, wide); sluice.Thousandths(n).Whole() != 97 {
		t.Errorf("%s are left in the limit that did not refuse", sluice.Thousandths(n))
	}
}
