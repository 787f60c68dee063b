package world

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/failover"
)

// comeBack checks that after every fault is over, and with no traffic, all nodes decide by
// the store again within a stated time.
func (w *World) comeBack() {
	time.Sleep(w.over() - w.planNow() + time.Second)
	for slot := range w.nodes {
		w.restart(slot)
	}
	time.Sleep(recovered)
	for slot := range w.nodes {
		if s := w.at(slot).guarded.State(); s != failover.Normal {
			w.recovery = append(w.recovery, Failure{"recovery", w.elapsed(), fmt.Sprintf("node %d is %s %s after the last fault", slot, s, recovered)})
		}
	}
}

// recovered is how long that may take.
const recovered = 6 * time.Second
