package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// BenchmarkTake shows what failover adds to a take: compare with "direct".
func BenchmarkTake(b *testing.B) {
	background := func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }
	for _, c := range []struct {
		name  string
		ctx   func() (context.Context, context.CancelFunc)
		state failover.State
	}{
		{"direct", background, failover.Normal},
		{"normal/background", background, failover.Normal},
		{"normal/cancellable", func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }, failover.Normal},
		{"normal/earlier-deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Hour)
		}, failover.Normal},
		{"open", background, failover.Open},
		{"testing", background, failover.Testing},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := failover.Config{Backoff: time.Hour, Testing: failover.Phase{For: time.Hour}}
			if c.name == "normal/earlier-deadline" {
				config.Timeout = 2 * time.Hour
			}
			if c.state == failover.Testing {
				config.Backoff = time.Nanosecond
			}
			l, s, f := open(b, config)
			if c.name == "direct" {
				l = sluice.New(f)
			}
			switch c.state {
			case failover.Open:
				breakOpen(b, l, s, f)
			case failover.Testing:
				breakOpen(b, l, s, f)
				f.set(none)
				for s.State() != failover.Testing {
					decide(b, l, "", critical("a"))
				}
			}
			ctx, cancel := c.ctx()
			defer cancel()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				t := sluice.Take{Demands: []sluice.Demand{demand("")}, Tier: "enterprise"}
				var names [1024]string
				for i := range names {
					names[i] = fmt.Sprint("customer-", i)
				}
				var d sluice.Decision
				for i := 0; pb.Next(); i++ {
					t.Demands[0].Key.Entity = names[i%len(names)]
					if err := l.Decide(ctx, &t, &d); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
