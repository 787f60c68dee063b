package catalog

import (
	"context"
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
	Entity      string        `json:"entity"` // the caller, or a parent
	Resource    string        `json:"resource,omitempty"`
	Limit       string        `json:"limit"`
	Numbers     sluice.Limit  `json:"numbers"`
	Level       string        `json:"level"`
	Capacity    sluice.Tokens `json:"capacity"`
	Remaining   sluice.Tokens `json:"remaining"`
	Utilization float64       `json:"utilization"` // percent of the capacity; above 100 is a debt
	ResetAfter  time.Duration `json:"resetAfter"`
	Alarm       Alarm         `json:"alarm"`
	Upgrade     bool          `json:"upgrade"` // near the limit, so a greater plan might help
}

// Panel is what is used of every limit that applies. It consumes nothing.
func (r *Resolution) Panel(ctx context.Context, l *sluice.Limiter, t Thresholds) ([]Figure, error) {
	if len(r.demands) == 0 {
		return nil, nil
	}
	d, err := l.Peek(ctx, r.demands...)
	if err != nil {
		return nil, err
	}
	figures := make([]Figure, len(d.Results))
	for i, result := range d.Results {
		demand := &d.Demands[i]
		capacity := demand.Limit.Capacity()
		utilization := 100 * float64(capacity-result.Remaining) / float64(capacity)
		alarm := t.Alarm(utilization)
		figures[i] = Figure{
			Entity: demand.Key.Entity, Resource: demand.Key.Resource, Limit: demand.Key.Limit,
			Numbers: demand.Limit, Level: demand.Level.String(), Capacity: capacity, Remaining: result.Remaining,
			Utilization: utilization, ResetAfter: result.ResetAfter, Alarm: alarm, Upgrade: alarm != AlarmNone,
		}
	}
	return figures, nil
}
