package limitstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/storetest"
)

// extremes are limits at the edges of what is valid, where a product that is
// multiplied before it is divided would overflow.
var extremes = []sluice.Limit{
	{Amount: sluice.Thousandths(1), Period: 5 * 365 * 24 * time.Hour},
	{Amount: sluice.Thousandths(1), Period: 5 * 365 * 24 * time.Hour, Burst: sluice.Thousandths(sluice.MaxThousandths)},
	{Amount: sluice.Thousandths(7), Period: time.Microsecond, Burst: sluice.Thousandths(sluice.MaxThousandths)},
	{Amount: sluice.Thousandths(sluice.MaxThousandths), Period: time.Microsecond},
	{Amount: sluice.Thousandths(sluice.MaxThousandths - 1), Period: 7 * time.Microsecond, Burst: sluice.Thousandths(1)},
	{Amount: sluice.Thousandths(99_991), Period: 90_071_992_547 * time.Microsecond, Burst: sluice.Thousandths(sluice.MaxThousandths)},
	{Amount: sluice.Thousandths(100_003), Period: 24 * time.Hour, Burst: sluice.Thousandths(1)},
	{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(sluice.MaxThousandths), Period: 5 * 365 * 24 * time.Hour},
	{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1), Period: time.Microsecond},
	{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(sluice.MaxThousandths), Calendar: sluice.CalendarMonth, Zone: "Pacific/Apia"},
	{Algorithm: sluice.SlidingWindow, Amount: sluice.Thousandths(sluice.MaxThousandths), Period: 5 * 365 * 24 * time.Hour},
	{Algorithm: sluice.SlidingWindow, Amount: sluice.Thousandths(3), Period: 17 * time.Microsecond},
}

// TestExtremeNumbers compares the arithmetic in SQL with the model's where
// numbers are as large and as small as they can be.
func TestExtremeNumbers(t *testing.T) {
	for _, limit := range extremes {
		if err := limit.Validate(); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	now := time.Date(2026, 3, 11, 10, 20, 30, 400_500_000, time.UTC)
	clock := func() time.Time { return now }
	model := storetest.NewModel(clock)
	store := open(t, postgres.Config{Address: postgrestest.Database(t), Clock: clock})
	stores := []*sluice.Limiter{sluice.New(model), sluice.New(store)}
	ctx := t.Context()
	for step := range 1500 {
		now = now.Add(leap(r))
		var answers [2]string
		do := operation(r)
		for i, l := range stores {
			answers[i] = do(ctx, l)
		}
		if answers[0] != answers[1] {
			t.Fatalf("step %d at %d:\n got %s\nwant %s", step, now.UnixMicro(), answers[1], answers[0])
		}
	}
	var held [2][]sluice.Grant
	for i, s := range []sluice.Store{model, store} {
		held[i] = make([]sluice.Grant, len(extremes))
		requests := make([]sluice.HoldRequest, len(extremes))
		for j, limit := range extremes {
			requests[j] = sluice.HoldRequest{
				Key: key(j), Limit: limit, ID: sluice.HoldID{Node: ^uint64(0), Seq: uint64(j)}, Max: sluice.Thousandths(sluice.MaxThousandths), TTL: time.Hour,
			}
		}
		if err := s.Hold(ctx, requests, held[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(held[0], held[1]) {
		t.Errorf("held\n got %v\nwant %v", held[1], held[0])
	}
}

func key(i int) sluice.Key { return sluice.Key{Namespace: "extreme", Limit: fmt.Sprint(i)} }

// leap is from no time at all to years.
func leap(r *rand.Rand) time.Duration {
	d := time.Duration(1) << r.IntN(57)
	return (d + time.Duration(r.Int64N(int64(d)))).Truncate(time.Microsecond)
}

// operation is a random take or adjustment of one or two of the extremes,
// sometimes under the limit of another.
func operation(r *rand.Rand) func(context.Context, *sluice.Limiter) string {
	i := r.IntN(len(extremes))
	j := i
	if r.IntN(8) == 0 {
		j = r.IntN(len(extremes))
	}
	d := sluice.Demand{Key: key(i), Limit: extremes[j], Cost: sluice.Thousandths(1 + r.Int64N(1<<r.IntN(50)))}
	if r.IntN(3) == 0 {
		d.Cost = sluice.Thousandths(max(1, d.Limit.Capacity().Thousandths()-int64(r.IntN(3))))
	}
	d.CountRefused = r.IntN(6) == 0
	other := sluice.Demand{Key: key((i + 1) % len(extremes)), Limit: extremes[(i+1)%len(extremes)], Cost: d.Cost}
	demands := []sluice.Demand{d, other}[:1+r.IntN(2)]
	kind := r.IntN(6)
	ticket := sluice.Ticket{
		ID:   sluice.HoldID{Node: uint64(r.IntN(2)) * r.Uint64(), Seq: 1 + uint64(r.IntN(3))<<r.IntN(63)},
		Rank: time.Duration(r.Int64N(1 << r.IntN(62))),
	}
	return func(ctx context.Context, l *sluice.Limiter) string {
		var answer sluice.Decision
		var err error
		switch kind {
		case 0:
			answer, err = l.TakeUpTo(ctx, demands...)
		case 1:
			err = l.Decide(ctx, &sluice.Take{Demands: demands, Ticket: ticket}, &answer)
		case 2, 3:
			changes := append([]sluice.Demand(nil), demands...)
			if kind == 3 {
				changes[0].Cost = sluice.Thousandths(-changes[0].Cost.Thousandths())
			}
			answer, err = l.Adjust(ctx, changes...)
		default:
			answer, err = l.Take(ctx, demands...)
		}
		return fmt.Sprintf("kind %d %v: %v %v %+v", kind, demands, err, answer.Allowed, answer.Results)
	}
}
