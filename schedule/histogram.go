package schedule

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// maxBars bounds a histogram.
const maxBars = 1000

// maxWindows bounds how many windows are read for one.
const maxWindows = 1_000_000

// Histogram is a plan's load over time.
type Histogram struct {
	Plan string        `json:"plan"`
	Step time.Duration `json:"-"` // how much time a bar stands for; written as "step": "1m0s"
	Bars []Bar         `json:"bars"`
}

// MarshalJSON writes the step as a duration.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	type fields Histogram
	return json.Marshal(struct {
		*fields
		Step string `json:"step"`
	}{(*fields)(h), h.Step.String()})
}

// Bar is the load of one step of time.
type Bar struct {
	From     time.Time `json:"from"`
	Events   int       `json:"events"`
	Capacity int       `json:"capacity"` // of the windows that begin there
}

// Load is how many events are scheduled from a time on, in bars of step each.
func (s *Scheduler) Load(ctx context.Context, plan string, from time.Time, step time.Duration, bars int) (*Histogram, error) {
	if plan == "" {
		plan = DefaultPlan
	}
	if bars < 1 || bars > maxBars {
		return nil, badinput.Field("bars", bars, fmt.Sprintf("must be 1 to %d", maxBars))
	}
	if step < time.Millisecond || step > MaxWindowSize {
		return nil, badinput.Field("step", step, "must be from 1ms to 31 days")
	}
	p, err := s.plans.get(ctx, plan)
	if err != nil {
		return nil, err
	}
	to := from.Add(time.Duration(bars) * step)
	windows, err := s.store.Windows(ctx, Selection{Namespace: s.namespace, Plan: plan, From: from, To: to, Max: maxWindows})
	if err != nil {
		return nil, err
	}
	h := &Histogram{Plan: plan, Step: step, Bars: make([]Bar, bars)}
	for i := range h.Bars {
		bar := &h.Bars[i]
		bar.From = from.Add(time.Duration(i) * step).UTC()
		first, last := ceilMicro(bar.From), ceilMicro(bar.From.Add(step))
		for t := first; t < last; { // one step for each era
			e, ends := p.grid.era(t)
			stop := min(last, ends)
			bar.Capacity += p.grid.distance(ceilDiv(t, e.Size)*e.Size, stop) * p.grid.capacity(e.Size)
			t = stop
		}
	}
	for _, w := range windows {
		i := int(time.UnixMicro(w.Start).Sub(from) / step)
		h.Bars[min(i, bars-1)].Events += w.Used
	}
	return h, nil
}

// Write draws h for a terminal of that many columns.
func (h *Histogram) Write(out io.Writer, columns int) error {
	w := bufio.NewWriter(out)
	most := 1
	for _, b := range h.Bars {
		most = max(most, b.Events, min(b.Capacity, 1_000_000))
	}
	layout := "2006-01-02 15:04:05"
	if h.Step < time.Second {
		layout = "2006-01-02 15:04:05.000"
	}
	width := max(columns-len(layout)-len("Z  ")-len(" 1000000/1000000 100%"), 10)
	fmt.Fprintf(w, "plan %s, %s a line\n", h.Plan, h.Step) //nolint:errcheck // Flush tells
	for _, b := range h.Bars {
		share := "closed"
		if b.Capacity > 0 {
			share = fmt.Sprintf("%d/%d %3.0f%%", b.Events, b.Capacity, 100*float64(b.Events)/float64(b.Capacity))
		} else if b.Events > 0 {
			share = fmt.Sprint(b.Events)
		}
		n := (b.Events*width + most - 1) / most
		bar := strings.Repeat("█", n) + strings.Repeat("·", max(min(b.Capacity, most)*width/most-n, 0))
		fmt.Fprintf(w, "%sZ  %-*s %s\n", b.From.UTC().Format(layout), width, bar, share) //nolint:errcheck // Flush tells
	}
	return w.Flush()
}
