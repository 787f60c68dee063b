package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// Alarm is how near to a limit somebody is.
type Alarm string

// The alarms.
const (
	AlarmNone     Alarm = "ok"
	AlarmWarning  Alarm = "warning"
	AlarmCritical Alarm = "critical"
)

// Worse reports whether a is nearer to a limit than b; any alarm is worse than
// not knowing.
func (a Alarm) Worse(b Alarm) bool {
	order := []Alarm{"", AlarmNone, AlarmWarning, AlarmCritical}
	return slices.Index(order, a) > slices.Index(order, b)
}

// Thresholds are the utilisations, in percent, from which there is an alarm.
// The zero Thresholds are 70 and 90.
type Thresholds struct {
	Warning, Critical float64
}

// Alarm is the alarm at a utilisation in percent.
func (t Thresholds) Alarm(utilization float64) Alarm {
	if t.Warning == 0 {
		t.Warning = 70
	}
	if t.Critical == 0 {
		t.Critical = 90
	}
	switch {
	case utilization >= t.Critical:
		return AlarmCritical
	case utilization >= t.Warning:
		return AlarmWarning
	}
	return AlarmNone
}

// Figure is one limit with what is used of it, for the caller's own panel.
type Figure struct {
	Entity      string // the caller, or a parent
	Resource    string
	Limit       string
	Rule        sluice.Limit
	Level       sluice.Level
	Capacity    sluice.Amount
	Remaining   sluice.Amount
	Utilization float64 // percent of the capacity; above 100 is a debt
	ResetAfter  time.Duration
	Alarm       Alarm
	Upgrade     bool          // near the limit, so a larger plan might help
	Source      sluice.Source // who was asked
	Unannounced bool          // callers are not told about it

	// Unknown says that Remaining, Utilization, ResetAfter and Alarm are not
	// known, because the store could not be asked.
	Unknown bool
}

// Panel is what an entity has used of every limit that applies. It consumes
// nothing. What nodes hold ahead of need is not used.
func (r *Resolution) Panel(ctx context.Context, l *sluice.Limiter, entity string, t Thresholds) ([]Figure, error) {
	if len(r.demands) == 0 {
		return nil, nil
	}
	d, err := l.Peek(ctx, r.Demands(nil, entity)...)
	if err != nil {
		return nil, err
	}
	figures := make([]Figure, len(d.Results))
	for i := range d.Results {
		demand, result := &d.Demands[i], &d.Results[i]
		f := &figures[i]
		*f = Figure{
			Entity: demand.Key.Entity, Resource: demand.Key.Resource, Limit: demand.Key.Limit,
			Rule: demand.Limit, Level: demand.Level, Capacity: demand.Limit.Capacity(), Source: d.Source, Unannounced: demand.Unannounced,
		}
		// What a node's own quotas have left says nothing about the bucket.
		if f.Unknown = result.Unknown || d.Source == sluice.Degraded || d.Source == sluice.Unknown; f.Unknown {
			continue
		}
		f.Remaining, f.ResetAfter = result.Remaining, result.ResetAfter
		f.Utilization = 100 * float64(f.Capacity.Thousandths()-f.Remaining.Thousandths()) / float64(f.Capacity.Thousandths())
		f.Alarm = t.Alarm(f.Utilization)
		f.Upgrade = f.Alarm != AlarmNone
	}
	return figures, nil
}
