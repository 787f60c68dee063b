package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
)

// Calls is a [sluice.Store] that times the calls of another one, for
// Prometheus. It belongs right in front of a shared store, behind failover and
// package advance, where a call is a trip over the network and two looks at the clock
// do not matter. In front of a memory store it has nothing to tell that
// [Takes] does not.
type Calls struct {
	inner    sluice.Store
	duration *prometheus.HistogramVec

	take, adjust, settle, reset, hold, giveBack, list, forget prometheus.Observer
}

var (
	_ sluice.Store         = (*Calls)(nil)
	_ sluice.Watcher       = (*Calls)(nil)
	_ prometheus.Collector = (*Calls)(nil)
)

// NewCalls returns a store that times the calls of inner. Closing it closes inner.
func NewCalls(inner sluice.Store) *Calls {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_store_call_duration_seconds",
		Help:    "Time until the shared store answered or failed, by operation.",
		Buckets: []float64{1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5},
	}, []string{"operation"})
	return &Calls{
		inner: inner, duration: duration,
		take: duration.WithLabelValues("take"), adjust: duration.WithLabelValues("adjust"),
		settle: duration.WithLabelValues("settle"), reset: duration.WithLabelValues("reset"),
		hold: duration.WithLabelValues("hold"), giveBack: duration.WithLabelValues("return"),
		list: duration.WithLabelValues("list"), forget: duration.WithLabelValues("forget"),
	}
}

// Describe sends the names.
func (c *Calls) Describe(ch chan<- *prometheus.Desc) { c.duration.Describe(ch) }

// Collect sends the present figures.
func (c *Calls) Collect(ch chan<- prometheus.Metric) { c.duration.Collect(ch) }

func since(o prometheus.Observer, start time.Time) { o.Observe(time.Since(start).Seconds()) }

// Take asks the store.
func (c *Calls) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	start := time.Now()
	err := c.inner.Take(ctx, t, d)
	since(c.take, start)
	return err
}

// Adjust asks the store.
func (c *Calls) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	defer since(c.adjust, time.Now())
	return c.inner.Adjust(ctx, changes, d)
}

// Settle asks the store.
func (c *Calls) Settle(ctx context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	defer since(c.settle, time.Now())
	return c.inner.Settle(ctx, s, d)
}

// Reset asks the store.
func (c *Calls) Reset(ctx context.Context, keys []sluice.Key) error {
	defer since(c.reset, time.Now())
	return c.inner.Reset(ctx, keys)
}

// Hold asks the store.
func (c *Calls) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	defer since(c.hold, time.Now())
	return c.inner.Hold(ctx, requests, grants)
}

// Return asks the store.
func (c *Calls) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	defer since(c.giveBack, time.Now())
	return c.inner.Return(ctx, returns)
}

// List asks the store.
func (c *Calls) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	defer since(c.list, time.Now())
	return c.inner.List(ctx, q)
}

// Forget asks the store.
func (c *Calls) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	defer since(c.forget, time.Now())
	return c.inner.Forget(ctx, f)
}

// Watch passes on what the store can tell, if it can.
func (c *Calls) Watch(wake func(sluice.Key)) {
	if w, ok := c.inner.(sluice.Watcher); ok {
		w.Watch(wake)
	}
}

// Capabilities returns those of the store.
func (c *Calls) Capabilities() sluice.Capabilities { return c.inner.Capabilities() }

// Close closes the store.
func (c *Calls) Close() error { return c.inner.Close() }
