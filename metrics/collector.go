package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// figures is a collector of numbers that something keeps anyway. It writes them
// on a sheet each time Prometheus asks.
type figures func(*sheet)

// Describe sends the names.
func (write figures) Describe(ch chan<- *prometheus.Desc) { write(&sheet{names: ch}) }

// Collect sends the present figures.
func (write figures) Collect(ch chan<- prometheus.Metric) { write(&sheet{values: ch}) }

// sheet is where figures are written. One of its channels is nil.
type sheet struct {
	names  chan<- *prometheus.Desc
	values chan<- prometheus.Metric
}

// rows writes a figure once for each that all yields. Figures whose names end
// in _total only grow.
func (s *sheet) rows(name, help string, labels []string, all func(yield func(value float64, labels ...string))) {
	desc := prometheus.NewDesc(name, help, labels, nil)
	if s.names != nil {
		s.names <- desc
		return
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	all(func(value float64, labels ...string) {
		s.values <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	})
}

type number interface{ ~int | ~int64 | ~float64 }

// add writes a figure without a label.
func add[N number](s *sheet, name, help string, value N) {
	s.rows(name, help, nil, func(yield func(float64, ...string)) { yield(float64(value)) })
}

// by writes a figure with a label.
func by[N number](s *sheet, name, help, label string, values map[string]N) {
	s.rows(name, help, []string{label}, func(yield func(float64, ...string)) {
		for of, value := range values {
			yield(float64(value), of)
		}
	})
}

// several is a collector of what others collect.
type several []prometheus.Collector

// Describe sends the names.
func (all several) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(ch)
	}
}

// Collect sends the present figures.
func (all several) Collect(ch chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(ch)
	}
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
