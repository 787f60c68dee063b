package inprocess

import (
	"sync"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/contest"
)

// openXRate is what most Go programs do: one rate.Limiter per key in a
// sync.Map. Nothing ever takes keys out again.
func openXRate(l limit, _ int) (*instance, error) {
	var limiters sync.Map
	take := func(key string) (bool, error) {
		v, ok := limiters.Load(key)
		if !ok {
			v, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Every(l.Every), l.Burst))
		}
		return v.(*rate.Limiter).Allow(), nil
	}
	return &instance{caller: func() contest.Take { return take }, close: func() {}}, nil
}
