package schedule

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// The defaults of a plan.
const (
	DefaultPlan         = "default" // the plan of requests that name none
	DefaultMaxPerWindow = 100
	DefaultWindowSize   = 4 * time.Second
	DefaultHeadroom     = 200
)

// MaxWindowSize is the longest that a window can be.
const MaxWindowSize = 31 * 24 * time.Hour

const (
	maxPerWindow = 1_000_000
	minWindow    = time.Millisecond
	maxHeadroom  = 100_000
	maxCalendar  = 256 << 10 // bytes, as JSON
)

// Plan says how events are paced. Plans are kept in versions, of which one is
// active; zero fields of a new one get their defaults.
type Plan struct {
	Name string `json:"name"`

	// Version numbers the versions of a plan from 1. In [Scheduler.SetPlan]
	// it is the version to replace, or 0 for whichever is active.
	Version int `json:"version,omitempty"`

	// MaxPerWindow is how many events fit into a window. 0 means 100.
	MaxPerWindow int `json:"maxPerWindow"`

	// WindowSize is how long a window is: whole milliseconds. 0 means 4 s.
	// Windows begin at multiples of it since 1970, in UTC.
	WindowSize time.Duration `json:"-"` // written as "windowSize": "4s"

	// Headroom is how many windows past the requested one are searched, not
	// counting closed time: how far ahead of time windows fill. 0 means 200.
	Headroom int `json:"headroom"`

	// Calendar says when work may run. Nil means always.
	Calendar *Calendar `json:"calendar,omitempty"`

	// Target is called for each event when its slot is due. Nil means that
	// somebody else does the work.
	Target *Target `json:"target,omitempty"`

	Active  bool      `json:"active"`
	Paused  bool      `json:"paused"` // nothing is dispatched; see [Scheduler.Pause]
	Created time.Time `json:"created,omitzero"`

	// Dispatched reports that workers claim the plan's slots, or once did. What
	// waits in such a plan is not leaked; see [Scheduler.Reconcile].
	Dispatched bool `json:"dispatched,omitempty"`

	// Starts is from when on windows have this size, except for those that had
	// events when the size was changed. Zero means always.
	Starts time.Time `json:"starts,omitzero"`
}

type planFields Plan

type planJSON struct {
	planFields
	WindowSize string `json:"windowSize"`
}

// MarshalJSON writes the window's size as a duration such as "4s".
func (p Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(planJSON{planFields(p), p.WindowSize.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Plan) UnmarshalJSON(b []byte) error {
	var in planJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = Plan(in.planFields)
	if in.WindowSize != "" {
		size, err := time.ParseDuration(in.WindowSize)
		if err != nil {
			return badinput.Field("windowSize", in.WindowSize, `must be a duration such as "4s"`)
		}
		p.WindowSize = size
	}
	return nil
}

var planName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`)

func checkPlanName(name string) error {
	if !planName.MatchString(name) {
		return badinput.Field("plan", name, "must be 1 to 100 letters, digits and . _ : -, beginning with a letter or digit")
	}
	return nil
}

// withDefaults fills in what is missing and says what is wrong with the rest.
func (p Plan) withDefaults() (Plan, error) {
	if p.Name == "" {
		p.Name = DefaultPlan
	}
	if p.MaxPerWindow == 0 {
		p.MaxPerWindow = DefaultMaxPerWindow
	}
	if p.WindowSize == 0 {
		p.WindowSize = DefaultWindowSize
	}
	if p.Headroom == 0 {
		p.Headroom = DefaultHeadroom
	}
	if err := checkPlanName(p.Name); err != nil {
		return p, err
	}
	switch {
	case p.Version < 0:
		return p, badinput.Field("version", p.Version, "must be the version to replace, or 0 for the active one")
	case p.MaxPerWindow < 1 || p.MaxPerWindow > maxPerWindow:
		return p, badinput.Field("maxPerWindow", p.MaxPerWindow, fmt.Sprintf("must be 1 to %d", maxPerWindow))
	case p.WindowSize < minWindow || p.WindowSize > MaxWindowSize || p.WindowSize%time.Millisecond != 0:
		return p, badinput.Field("windowSize", p.WindowSize, fmt.Sprintf("must be whole milliseconds from %s to 31 days", minWindow))
	case p.Headroom < 1 || p.Headroom > maxHeadroom:
		return p, badinput.Field("headroom", p.Headroom, fmt.Sprintf("must be 1 to %d", maxHeadroom))
	}
	if p.Target != nil {
		t, err := p.Target.withDefaults()
		if err != nil {
			return p, err
		}
		p.Target = t
	}
	if p.Calendar == nil {
		return p, nil
	}
	if b, err := json.Marshal(p.Calendar); err != nil || len(b) > maxCalendar {
		return p, badinput.Field("calendar", len(b), fmt.Sprintf("must be at most %d bytes of JSON", maxCalendar))
	}
	return p, p.Calendar.Validate()
}
