package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
)

// Memory shows the figures of a memory store.
func Memory(s *memory.Store) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_memory_buckets", help: "Buckets in memory."},
		{name: "sluice_memory_bytes", help: "Bytes that buckets, leases and request ids take up, as the store reckons it."},
		{name: "sluice_memory_receipts", help: "Leases and request ids in memory."},
		{name: "sluice_memory_overflowed_total", help: "Takes that had to share a bucket because the store was full."},
		{name: "sluice_memory_forgotten_total", help: "Full buckets that were dropped."},
		{name: "sluice_clock_steps_total", help: clockSteps, label: "direction"},
		{name: "sluice_memory_clock_ahead_seconds", help: "How far the store's time is ahead of the wall clock, after that was set back."},
		{name: "sluice_memory_damaged_snapshots_total", help: "Snapshots that could not be read and were set aside."},
		{name: "sluice_clock_gaps_total", help: clockGaps},
	}, func(add func(int, float64, ...string)) {
		st := s.Stats()
		add(0, float64(st.Buckets))
		add(1, float64(st.Bytes))
		add(2, float64(st.Receipts))
		add(3, float64(st.Overflowed))
		add(4, float64(st.Forgotten))
		add(5, float64(st.ClockBack), "back")
		add(5, float64(st.ClockForward), "forward")
		add(6, st.ClockAhead.Seconds())
		add(7, float64(st.DamagedSnapshots))
		add(8, float64(st.ClockGaps))
	})
}

const (
	clockSteps = "Steps of the store's clock that were seen."
	clockGaps  = "Times that nothing was heard of the store's clock for over 15 s."
)

// Postgres shows the figures of a store on PostgreSQL.
func Postgres(s *pglimits.Store) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_postgres_takes_total", help: "Takes that the database decided."},
		{name: "sluice_postgres_batches_total", help: "Statements in which these takes were sent; several go together under load."},
		{name: "sluice_clock_steps_total", help: clockSteps, label: "direction"},
		{name: "sluice_clock_gaps_total", help: clockGaps},
	}, func(add func(int, float64, ...string)) {
		st := s.Stats()
		add(0, float64(st.Takes))
		add(1, float64(st.Batches))
		add(2, float64(st.ClockBack), "back")
		add(2, float64(st.ClockForward), "forward")
		add(3, float64(st.ClockGaps))
	})
}

// Redis shows the figures of a store on Redis.
func Redis(s *redislimits.Store) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_clock_steps_total", help: clockSteps, label: "direction"},
		{name: "sluice_clock_gaps_total", help: clockGaps},
	}, func(add func(int, float64, ...string)) {
		st := s.Stats()
		add(0, float64(st.ClockBack), "back")
		add(0, float64(st.ClockForward), "forward")
		add(1, float64(st.ClockGaps))
	})
}

// Advance shows the figures of tokens held ahead of need.
func Advance(s *advance.Store) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_held_hits_total", help: "Takes decided with tokens in hand."},
		{name: "sluice_deny_cache_hits_total", help: "Takes refused by the deny cache."},
		{name: "sluice_exact_takes_total", help: "Takes that the store decided."},
		{name: "sluice_holds_asked_total", help: "Requests for tokens in advance."},
		{name: "sluice_holds_granted_total", help: "Requests for tokens in advance that got some."},
		{name: "sluice_holds_returned_total", help: "Holds given back."},
		{name: "sluice_holds_distrusted_total", help: "Times that all holds were dropped because a clock ran ahead."},
		{name: "sluice_held_buckets", help: "Buckets of which this node has tokens or refusals."},
	}, func(add func(int, float64, ...string)) {
		st := s.Stats()
		for i, n := range []int64{st.Held, st.Denied, st.Exact, st.Asked, st.Granted, st.Returned, st.Distrusted, st.Buckets} {
			add(i, float64(n))
		}
	})
}

// Failover shows how it goes with the shared store.
func Failover(s *failover.Store) prometheus.Collector {
	states := []failover.State{
		failover.Normal, failover.Open, failover.HalfOpen, failover.Testing, failover.Partial, failover.Stabilizing,
	}
	return collect([]figure{
		{name: "sluice_store_state", help: "1 for the state that the store is in: normal, open, half-open or a phase of recovery.", label: "state"},
		{name: "sluice_store_state_entered_total", help: "How often each state was entered.", label: "state"},
		{name: "sluice_store_state_seconds_total", help: "How long each state has lasted in all.", label: "state"},
		{name: "sluice_store_errors_total", help: "Calls that the store failed, by how.", label: "kind"},
		{name: "sluice_degraded_allowed_total", help: "Takes allowed by local quotas, by tier.", label: "tier"},
		{name: "sluice_degraded_refused_total", help: "Takes refused by local quotas, by tier.", label: "tier"},
		{name: "sluice_unknown_total", help: "Local decisions on takes that the store may have counted too."},
		{name: "sluice_unknown_adjusts_total", help: "Adjustments and settlements that may or may not have happened."},
		{name: "sluice_store_recoveries_total", help: "Times that the store was back to normal."},
		{name: "sluice_degraded_buckets", help: "Local quotas that are not full."},
		{name: "sluice_degraded_bytes", help: "Memory of local quotas, in bytes."},
		{name: "sluice_degraded_overflowed_total", help: "Local takes that had to share a quota."},
		{name: "sluice_degraded_leases", help: "Leases given locally and still open."},
		{name: "sluice_degraded_unlisted_total", help: "Leases given locally whose cost was not kept, because there were too many."},
		{name: "sluice_store_next_probe_seconds", help: "Time until a store that is not asked is tried again; 0 if it is asked."},
	}, func(add func(int, float64, ...string)) {
		st := s.Stats()
		for _, state := range states {
			now := 0.0
			if st.State == state {
				now = 1
			}
			add(0, now, state.String())
			add(1, float64(st.Entered[state]), state.String())
			add(2, float64(st.Spent[state])/float64(time.Second), state.String())
		}
		add(3, float64(st.TimedOut), "timeout")
		add(3, float64(st.Lost), "lost")
		add(3, float64(st.Unreachable), "unreachable")
		add(3, float64(st.Faulty), "faulty")
		for tier, n := range st.Degraded {
			add(4, float64(n.Allowed), tier)
			add(5, float64(n.Refused), tier)
		}
		add(6, float64(st.Unknown))
		add(7, float64(st.UnknownAdjusts))
		add(8, float64(st.Recoveries))
		add(9, float64(st.Buckets))
		add(10, float64(st.Bytes))
		add(11, float64(st.Overflowed))
		add(12, float64(st.Leases))
		add(13, float64(st.Unlisted))
		add(14, st.NextProbe.Seconds())
	})
}
