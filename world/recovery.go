package world

import (
	"time"

	"github.com/sluice-go/sluice/failover"
)

// comeBack checks that after every fault is over all nodes decide by the store
// again within the time that docs/failover.md states, although nobody asks
// them anything.
//
// Tolerance: none but that the last fault is over for the store a moment later
// than for the world, because messages that it kept are answered first.
func (w *World) comeBack() {
	time.Sleep(w.over() - w.planNow() + 10*usual)
	w.ended = w.clocks.stamp()
	for slot := range w.nodes {
		w.restart(slot)
	}
	if len(w.plan.Faults) > 0 {
		time.Sleep(recovered())
	}
	for slot := range w.nodes {
		if s := w.at(slot).guarded.State(); s != failover.Normal {
			w.fail("recovery", "node %d is %s %s after the last fault", slot, s, recovered())
		}
	}
}

// recovered is how long it may take until a node is normal again: the last
// call that fails, the health checks that close the breaker, and the phases, each of
// which ends with the next health check at the latest.
func recovered() time.Duration {
	const timeout, successes = 250 * time.Millisecond, 3 // failover's defaults
	sum := timeout + successes*failover.CheckEvery
	for _, p := range []failover.Phase{guard.Testing, guard.Partial, guard.Stabilizing} {
		sum += max(2*p.For, time.Duration(p.Successes)*failover.CheckEvery) + failover.CheckEvery
	}
	return sum
}
