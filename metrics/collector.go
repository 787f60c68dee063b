package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// figure is one number that something keeps anyway. Those whose names end in
// _total only grow.
type figure struct {
	name, help string
	label      string // "" for none
}

// collector shows figures. read calls add with the number of each.
type collector struct {
	descs []*prometheus.Desc
	kinds []prometheus.ValueType
	read  func(add func(figure int, value float64, label ...string))
}

func collect(all []figure, read func(add func(figure int, value float64, label ...string))) prometheus.Collector {
	c := &collector{read: read}
	for _, f := range all {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(f.name, "_total") {
			kind = prometheus.CounterValue
		}
		var labels []string
		if f.label != "" {
			labels = []string{f.label}
		}
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, labels, nil))
		c.kinds = append(c.kinds, kind)
	}
	return c
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.read(func(i int, value float64, label ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[i], c.kinds[i], value, label...)
	})
}

// pairs shows one figure with several labels.
type pairs struct {
	desc *prometheus.Desc
	read func(add func(value float64, labels ...string))
}

func collectPairs(name, help string, labels []string, read func(add func(value float64, labels ...string))) prometheus.Collector {
	return &pairs{prometheus.NewDesc(name, help, labels, nil), read}
}

func (p *pairs) Describe(ch chan<- *prometheus.Desc) { ch <- p.desc }

func (p *pairs) Collect(ch chan<- prometheus.Metric) {
	p.read(func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, value, labels...)
	})
}

// counters shows counts that are found when Prometheus asks.
type counters func(add func(name, help string, labels, values []string, n uint64))

// Counters shows the counts that read adds each time Prometheus asks, whichever
// they are then. Those of Envoy's rate limit service change with its files.
func Counters(read func(add func(name, help string, labels, values []string, n uint64))) prometheus.Collector {
	return counters(read)
}

func (counters) Describe(chan<- *prometheus.Desc) {}

func (read counters) Collect(ch chan<- prometheus.Metric) {
	read(func(name, help string, labels, values []string, n uint64) {
		valid := make([]string, len(values))
		for i, v := range values {
			valid[i] = strings.ToValidUTF8(v, "\uFFFD")
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, float64(n), valid...)
	})
}
