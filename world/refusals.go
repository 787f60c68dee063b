package world

import (
	"fmt"

	"github.com/sluice-go/sluice"
)

// refusals checks that a refusal says never exactly when the cost exceeds the
// capacity of a limit that applies. What is answered without the store may say
// something else.
func (w *World) refusals() (failures []Failure) {
	for _, t := range w.told {
		if t.Take == nil || t.Err != nil || t.Decision.Allowed || t.degraded() {
			continue
		}
		never := false
		for i := range t.Take.Demands {
			dm := &t.Take.Demands[i]
			cost := dm.Charge()
			if t.Take.UpTo {
				cost = min(cost, sluice.Token)
			}
			never = never || !dm.Shadow && cost > dm.Limit.Capacity()
		}
		if told := t.Decision.RetryAfter == sluice.Never; told != never {
			failures = append(failures, Failure{"refusals", t.Return.At, fmt.Sprintf(
				"caller %d is told to come back in %s, but never is %v: %s by %s", t.Caller>>16-1, t.Decision.RetryAfter, never, t.what(), t.Decision.Source)})
		}
	}
	return failures
}

// comeBackAlone plays the silent end of a world.
func (w *World) comeBackAlone() {}
