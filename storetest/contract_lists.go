package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

func checkInvalidHold(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	a := s.demand("a", tenPer, 1)
	grants := make([]sluice.Grant, 2)
	err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{
		{Key: a.Key, Limit: a.Limit, ID: holdID(1), Max: sluice.Thousandths(amount(5)), TTL: time.Minute},
		{Key: s.key("b"), ID: holdID(2), Max: sluice.Thousandths(amount(5)), TTL: time.Minute},
	}, grants)
	if err == nil {
		return errors.New("no error for a limit that is not valid")
	}
	return s.left(a, 20)
}

func checkHoldOrder(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	a, b := s.demand("a", tenPer, 1), s.demand("b", tenPer, 1)
	request := func(d sluice.Demand, seq uint64, tokens float64) sluice.HoldRequest {
		return sluice.HoldRequest{Key: d.Key, Limit: d.Limit, ID: holdID(seq), Max: sluice.Thousandths(amount(tokens)), TTL: time.Minute}
	}
	requests := []sluice.HoldRequest{request(a, 1, 15), request(b, 2, 8), request(a, 3, 15), request(a, 4, 15)}
	requests[3].Previous, requests[3].Spent = holdID(1), sluice.Thousandths(amount(12))
	grants := make([]sluice.Grant, len(requests))
	if err := s.store.Hold(s.tb.Context(), requests, grants); err != nil {
		return err
	}
	for i, want := range []string{
		"held 15 for 1m0s, 20 left, 5 free", "held 8 for 1m0s, 20 left, 12 free", "held 5 for 1m0s, 20 left, 0 free", "held 3 for 1m0s, 8 left, 0 free",
	} {
		if err := expect(fmt.Sprintf("request %d", i), tellGrant(&grants[i]), want); err != nil {
			return err
		}
	}
	err := s.store.Return(s.tb.Context(), []sluice.HoldReturn{
		{Key: a.Key, Limit: a.Limit, ID: holdID(3)}, {Key: a.Key, Limit: a.Limit, ID: holdID(3)},
		{Key: b.Key, Limit: b.Limit, ID: holdID(4)}, // of another bucket
		{Key: a.Key, Limit: a.Limit, ID: sluice.HoldID{Node: 8, Seq: 4}},
		{Key: b.Key, Limit: b.Limit, ID: holdID(2), Spent: sluice.Thousandths(amount(8))},
	})
	return errors.Join(err, s.left(a, 8), s.left(b, 12))
}

func checkManyHolds(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demand := s.demand("a", "1000/s", 1)
	ask := func(seq uint64) (sluice.Grant, error) {
		grants := make([]sluice.Grant, 1)
		err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{{
			Key: demand.Key, Limit: demand.Limit, ID: holdID(seq), Max: sluice.Tokens(1), TTL: time.Minute,
		}}, grants)
		return grants[0], err
	}
	for i := range uint64(bucket.MaxHolds + 1) {
		if i == 1 {
			s.clock.advance(time.Second)
		}
		g, err := ask(i + 1)
		if err != nil {
			return err
		}
		if want := i < bucket.MaxHolds; (g.Amount.Thousandths() != 0) != want {
			return fmt.Errorf("hold %d: got %s", i+1, tellGrant(&g))
		}
		if i == bucket.MaxHolds {
			if err := expect("retry in", g.RetryIn, 59*time.Second); err != nil {
				return err
			}
		}
	}
	s.clock.advance(59 * time.Second)
	if g, err := ask(1000); err != nil || g.Amount.Thousandths() == 0 {
		return errors.Join(err, fmt.Errorf("when one has expired: got %s", tellGrant(&g)))
	}
	return nil
}

func checkList(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	other := sluice.Key{Namespace: s.namespace + "-other", Entity: "e0", Resource: "r0", Limit: "l"}
	keys := []sluice.Key{other}
	for i := range 12 {
		keys = append(keys, sluice.Key{Namespace: s.namespace, Entity: fmt.Sprint("e", i%3), Resource: fmt.Sprint("r", i%4), Limit: "l"})
	}
	for _, k := range keys {
		if _, err := s.take(sluice.Demand{Key: k, Limit: sluice.Per(10, time.Hour)}); err != nil {
			return err
		}
	}
	for _, test := range []struct {
		query sluice.Query
		want  int
	}{
		{sluice.Query{Namespace: s.namespace}, 12},
		{sluice.Query{Namespace: s.namespace, Entity: "e1"}, 4},
		{sluice.Query{Namespace: s.namespace, Resource: "r2"}, 3},
		{sluice.Query{Namespace: s.namespace, Entity: "e2", Resource: "r3"}, 1},
		{sluice.Query{Namespace: s.namespace, Entity: "e"}, 0},
		{sluice.Query{Namespace: other.Namespace, Entity: "e0"}, 1},
		{sluice.Query{Namespace: s.namespace + "?"}, 0},
	} {
		for _, size := range []int{0, 1, 2, 5, 12} {
			q := test.query
			q.Max = size
			seen, pages := map[sluice.Key]bool{}, 0
			for ; ; pages++ {
				page, err := s.limiter.List(s.tb.Context(), q)
				if err != nil || size > 0 && len(page.Buckets) > size || pages > 100 {
					return errors.Join(err, fmt.Errorf("%+v: page %d has %d buckets", q, pages, len(page.Buckets)))
				}
				for _, b := range page.Buckets {
					if seen[b.Key] || b.Key.Namespace != q.Namespace || q.Entity != "" && b.Key.Entity != q.Entity ||
						q.Resource != "" && b.Key.Resource != q.Resource {
						return fmt.Errorf("%+v: found %s, twice or without looking for it", q, b.Key)
					}
					seen[b.Key] = true
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if err := expect(fmt.Sprintf("%+v: buckets found", q), len(seen), test.want); err != nil {
				return err
			}
		}
	}
	return nil
}
