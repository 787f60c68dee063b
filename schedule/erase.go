package schedule

import "context"

// Erase removes everything that the store has in a namespace, whichever the
// scheduler's own is: plans, events and the audit log, a little at a time. It
// answers how many events it was. If it is interrupted, call it again. Who is
// working on an event of it finds the claim lost; nobody begins another.
func (s *Scheduler) Erase(ctx context.Context, namespace string) (events int64, err error) {
	for more := true; more; {
		erased, err := s.store.Sweep(ctx, Sweeping{Namespace: namespace, Target: SweepAll, Max: sweepMost})
		events += int64(erased.Removed)
		if err != nil {
			return events, err
		}
		more = erased.More
	}
	return events, nil
}
