package metrics

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// Utilization watches how full buckets are, as a [sluice.Observer]: it shows
// Prometheus how many are near their limit and how near the fullest are, and
// writes a line to the log when one comes to an alarm: a warning, or an error if
// it is critical. What nodes hold ahead of need is not used.
//
// It knows what this process asked for, and what it hears of buckets that it
// holds tokens of. A bucket that only others use is in their figures.
type Utilization struct {
	several
	from  [severities]float64 // utilization in percent; none is 0
	log   *slog.Logger
	lines lines

	seed  maphash.Seed
	near  [nearShards]nearShard
	known atomic.Int64 // buckets in near

	peaks peaks
	tiers bounded[string, prometheus.Observer] // how full the fullest bucket of each take was

	crossed   [severities]prometheus.Counter
	unwatched prometheus.Counter
}

// severity is how bad an alarm is: how near its limit a bucket is.
type severity uint8

const (
	none severity = iota
	warning
	critical

	severities = iota
)

func (a severity) String() string {
	return string([severities]catalog.Alarm{catalog.AlarmNone, catalog.AlarmWarning, catalog.AlarmCritical}[a])
}

// slack is how many percent a bucket must fall below the threshold of an alarm to
// have left it. Without it, one that is taken from and refilled around the
// threshold would cross it all the time.
const slack = 10

var (
	_ sluice.Observer      = (*Utilization)(nil)
	_ prometheus.Collector = (*Utilization)(nil)
)

// NewUtilization returns an observer that watches for the thresholds; zero ones
// are 70 and 90 %. Nil for the log means slog.Default.
func NewUtilization(at catalog.Thresholds, log *slog.Logger) (*Utilization, error) {
	at.Warning, at.Critical = cmp.Or(at.Warning, 70), cmp.Or(at.Critical, 90)
	if at.Warning <= 0 || at.Warning > 100 {
		return nil, &sluice.FieldError{Field: "utilization.warning", Value: at.Warning, Reason: "must be above 0 and at most 100 percent"}
	}
	if at.Critical < at.Warning || at.Critical > 100 {
		return nil, &sluice.FieldError{Field: "utilization.critical", Value: at.Critical, Reason: "must be at least the warning, and at most 100 percent"}
	}
	if log == nil {
		log = slog.Default()
	}
	crossed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_utilization_crossings_total", Help: "Times that a bucket came to an alarm from below.",
	}, []string{"alarm"})
	u := &Utilization{
		from: [severities]float64{warning: at.Warning, critical: at.Critical}, log: log, seed: maphash.MakeSeed(),
		unwatched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_utilization_unwatched_total", Help: "Takes from buckets near their limit that were not watched, because there were too many.",
		}),
	}
	for _, a := range []severity{warning, critical} {
		u.crossed[a] = crossed.WithLabelValues(a.String())
	}
	used := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_take_utilization_ratio",
		Help:    "Utilization after each take, of the fullest of its buckets, by tier; 1 is used up.",
		Buckets: []float64{0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1},
	}, []string{"tier"})
	u.tiers = bounded[string, prometheus.Observer]{
		most: mostTiers,
		of:   func(tier string) prometheus.Observer { return used.WithLabelValues(label(tier)) },
		rest: func() prometheus.Observer { return used.WithLabelValues(other) },
	}
	u.tiers.get("")
	u.several = several{crossed, used, u.unwatched, figures(u.countNear), figures(u.peaks.write)}
	return u, nil
}

// Decided looks at how full the buckets are now. What local quotas say is not
// about them.
func (u *Utilization) Decided(t *sluice.Take, d *sluice.Decision, err error, _ time.Duration) {
	if err != nil || d.Source == sluice.Degraded || d.Source == sluice.Unknown || len(d.Results) < len(t.Demands) {
		return
	}
	now := time.Now()
	fullest := -1.0
	for i := range t.Demands {
		fullest = max(fullest, u.look(&t.Demands[i], &d.Results[i], now))
	}
	if fullest >= 0 {
		u.tiers.get(t.Tier).Observe(fullest / 100)
	}
}

// Heard looks at a bucket of which the store has told without a take: see
// [github.com/sluice-go/sluice/advance.Config].
func (u *Utilization) Heard(d *sluice.Demand, r *sluice.Result) { u.look(d, r, time.Now()) }

// look returns how full a bucket is, in percent, or -1 if that is not known.
func (u *Utilization) look(d *sluice.Demand, r *sluice.Result, now time.Time) float64 {
	capacity := d.Limit.Capacity().Thousandths()
	if capacity <= 0 || r.Unknown {
		return -1
	}
	used := max(100*float64(capacity-r.Remaining.Thousandths())/float64(capacity), 0)
	u.peaks.saw(d.Key.Resource, d.Key.Limit, used, now)
	// Most buckets are far from their limits, and are not looked up.
	if used >= u.from[warning] || u.known.Load() > 0 {
		u.saw(d, used, r.ResetAfter, now)
	}
	return used
}

// Consumed looks at a bucket that was adjusted; Decided has seen takes.
func (u *Utilization) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	if c.Result != nil && !c.Take {
		u.look(&sluice.Demand{Key: k, Limit: l}, c.Result, time.Now())
	}
}

// Waited does nothing: waiting uses nothing.
func (u *Utilization) Waited(*sluice.Take, time.Duration, bool) {}

// alarm returns the alarm of a bucket that is used so far, and had another before.
func (u *Utilization) alarm(used float64, before severity) severity {
	for _, a := range []severity{critical, warning} {
		from := u.from[a]
		if before >= a {
			from -= slack
		}
		if used >= from {
			return a
		}
	}
	return none
}
