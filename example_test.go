package sluice_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// newLimiter is a limiter on a store in this process.
func newLimiter() (*sluice.Limiter, func()) {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return sluice.New(store), func() { store.Close() }
}

// One take asks several limits of several entities together: all are
// consumed, or none is.
func ExampleLimiter_Take() {
	limiter, closeStore := newLimiter()
	defer closeStore()
	ctx := context.Background()

	demands := []sluice.Demand{
		{Key: sluice.Key{Entity: "ann", Limit: "requests"}, Limit: sluice.MustParse("100/day")},
		{Key: sluice.Key{Entity: "ann", Limit: "tokens"}, Limit: sluice.MustParse("5000/day"), Cost: sluice.Tokens(2000)},
		{Key: sluice.Key{Entity: "acme", Limit: "tokens"}, Limit: sluice.MustParse("1M/day"), Cost: sluice.Tokens(2000)},
	}
	for range 3 {
		d, err := limiter.Take(ctx, demands...)
		if err != nil {
			log.Fatal(err)
		}
		decider, _ := d.Deciding()
		fmt.Println(d.Allowed, "decided by", decider.Key)
		for i, r := range d.Results {
			fmt.Println("  ", d.Demands[i].Key, "has", r.Remaining.Whole(), "left")
		}
	}
	// Output:
	// true decided by ann/tokens
	//    ann/requests has 99 left
	//    ann/tokens has 3000 left
	//    acme/tokens has 998000 left
	// true decided by ann/tokens
	//    ann/requests has 98 left
	//    ann/tokens has 1000 left
	//    acme/tokens has 996000 left
	// false decided by ann/tokens
	//    ann/requests has 98 left
	//    ann/tokens has 1000 left
	//    acme/tokens has 996000 left
}

// A refusal as an error names the limit and when to come back, or that it is
// no use.
func ExampleDecision_Err() {
	limiter, closeStore := newLimiter()
	defer closeStore()

	d, err := limiter.Take(context.Background(), sluice.Demand{
		Key:   sluice.Key{Entity: "ann", Limit: "tokens"},
		Limit: sluice.MustParse("10/s burst 20"),
		Cost:  sluice.Tokens(25),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Err())
	// Output: refused by ann/tokens (10/s burst 20, from default): a cost of 25 can never pass
}

// As much as there is, for work that can be done in part.
func ExampleLimiter_TakeUpTo() {
	limiter, closeStore := newLimiter()
	defer closeStore()

	mails := sluice.Demand{
		Key:   sluice.Key{Entity: "newsletter", Limit: "mails"},
		Limit: sluice.MustParse("500/day"),
		Cost:  sluice.Tokens(300),
	}
	for range 3 {
		d, err := limiter.TakeUpTo(context.Background(), mails)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Granted)
	}
	// Output:
	// true 300
	// true 200
	// false 0
}

// Looking consumes nothing.
func ExampleLimiter_Peek() {
	limiter, closeStore := newLimiter()
	defer closeStore()

	requests := sluice.Demand{Key: sluice.Key{Entity: "ann"}, Limit: sluice.MustParse("100/day")}
	for range 2 {
		d, err := limiter.Peek(context.Background(), requests)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Results[0].Remaining)
	}
	// Output:
	// true 100
	// true 100
}

// What was used without asking is charged afterwards, and may leave a debt; a
// negative cost is a refund.
func ExampleLimiter_Adjust() {
	limiter, closeStore := newLimiter()
	defer closeStore()

	tokens := sluice.Demand{Key: sluice.Key{Entity: "ann", Limit: "tokens"}, Limit: sluice.MustParse("1000/day fixed")}
	for _, cost := range []int64{1200 * sluice.Token, -500 * sluice.Token} {
		tokens.Cost = sluice.Thousandths(cost)
		d, err := limiter.Adjust(context.Background(), tokens)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Results[0].Remaining)
	}
	// Output:
	// -200
	// 300
}

// A reset makes a bucket as new.
func ExampleLimiter_Reset() {
	limiter, closeStore := newLimiter()
	defer closeStore()
	ctx := context.Background()

	logins := sluice.Demand{Key: sluice.Key{Entity: "ann", Resource: "login"}, Limit: sluice.MustParse("1/day")}
	for i := range 3 {
		d, err := limiter.Take(ctx, logins)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed)
		if i == 1 {
			if err := limiter.Reset(ctx, logins.Key); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// true
	// false
	// true
}

// A lease is for work whose cost is known only afterwards: take an estimate,
// adjust it, and commit the real cost.
func ExampleLimiter_Acquire() {
	limiter, closeStore := newLimiter()
	defer closeStore()
	ctx := context.Background()

	lease, d, err := limiter.Acquire(ctx, sluice.Take{
		Keep: 10 * time.Minute, // if this process dies, its place is free again after that
		Demands: []sluice.Demand{
			{Key: sluice.Key{Entity: "ann", Limit: "parallel"}, Limit: sluice.MustParse("5 concurrent")},
			{Key: sluice.Key{Entity: "ann", Limit: "tokens"}, Limit: sluice.MustParse("10k/day fixed"), Cost: sluice.Tokens(1000)},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if lease == nil {
		log.Fatal(d.Err())
	}
	show := func(what string, d sluice.Decision) {
		fmt.Println(what, d.Results[0].Remaining, d.Results[1].Remaining)
	}
	show("acquired: ", d)

	if d, err = lease.Adjust(ctx, sluice.LimitCost{Limit: "tokens", Cost: sluice.Tokens(4000)}); err != nil {
		log.Fatal(err)
	}
	show("adjusted: ", d)

	if d, err = lease.Commit(ctx, sluice.LimitCost{Limit: "tokens", Cost: sluice.Tokens(3700)}); err != nil {
		log.Fatal(err)
	}
	show("committed:", d)
	// Output:
	// acquired:  4 9000
	// adjusted:  4 6000
	// committed: 5 6300
}

// Work that fails costs nothing.
func ExampleLimiter_Do() {
	limiter, closeStore := newLimiter()
	defer closeStore()
	ctx := context.Background()

	take := sluice.Take{Demands: []sluice.Demand{{
		Key: sluice.Key{Entity: "upstream"}, Limit: sluice.MustParse("100/day fixed"), Cost: sluice.Tokens(10),
	}}}
	for _, result := range []error{nil, errors.New("upstream is down")} {
		err := limiter.Do(ctx, take, func(ctx context.Context, lease *sluice.Lease) error {
			return result
		})
		d, peekErr := limiter.Peek(ctx, take.Demands...)
		if peekErr != nil {
			log.Fatal(peekErr)
		}
		fmt.Println(err, d.Results[0].Remaining)
	}
	// Output:
	// <nil> 90
	// upstream is down 90
}

// Waiting in line: the callers are served in their order as tokens come back.
func ExampleLimiter_Wait() {
	limiter, closeStore := newLimiter()
	defer closeStore()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	take := sluice.Take{
		Priority: sluice.Batch,
		Demands:  []sluice.Demand{{Key: sluice.Key{Entity: "upstream"}, Limit: sluice.MustParse("100/s burst 2")}},
	}
	start := time.Now()
	for range 5 {
		if _, err := limiter.Wait(ctx, take); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("five calls, three of them 10 ms apart:", time.Since(start) >= 29*time.Millisecond)
	// Output: five calls, three of them 10 ms apart: true
}

func ExampleParse() {
	for _, s := range []string{
		"100/minute", "10/s burst 20", "1000/24h", "1.5k/15min sliding", "50000/month UTC", "5 concurrent", "10 per second",
	} {
		l, err := sluice.Parse(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s: %s of at most %s\n", l, l.Algorithm, l.Capacity())
	}
	// Output:
	// 100/minute: token bucket of at most 100
	// 10/s burst 20: token bucket of at most 20
	// 1000/day: token bucket of at most 1000
	// 1500/15m sliding: sliding window of at most 1500
	// 50000/month UTC: fixed window of at most 50000
	// 5 concurrent: concurrency of at most 5
	// limit "10 per second": want for example "100/minute", "10/s burst 20", "50000/month UTC" or "5 concurrent"
}
