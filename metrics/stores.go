package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/advance"
	dynamolimits "github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/internal/alarm"
	"github.com/sluice-go/sluice/internal/pressure"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/postgres"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
)

// Memory shows the figures of a memory store.
func Memory(s *memory.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		add(w, "sluice_memory_buckets", "Buckets in memory.", st.Buckets)
		add(w, "sluice_memory_bytes", "Bytes that buckets, leases and request ids take up, as the store estimates it.", st.Bytes)
		add(w, "sluice_memory_receipts", "Leases and request ids in memory.", st.Receipts)
		add(w, "sluice_memory_overflowed_total", "Takes that had to share a bucket because the store was full.", st.Overflowed)
		add(w, "sluice_memory_forgotten_total", "Full buckets that were dropped.", st.Forgotten)
		by(w, "sluice_clock_steps_total", clockSteps, "direction", map[string]int64{"back": st.ClockBack, "forward": st.ClockForward})
		add(w, "sluice_memory_clock_ahead_seconds", "How far the store's time is ahead of the wall clock, after that was set back.", st.ClockAhead.Seconds())
		add(w, "sluice_memory_damaged_snapshots_total", "Snapshots that could not be read and were set aside.", st.DamagedSnapshots)
		add(w, "sluice_clock_gaps_total", clockGaps, st.ClockGaps)
	})
}

// Pressure shows how much memory the process uses of what it may use.
func Pressure(g *pressure.Gauge) prometheus.Collector {
	return figures(func(w *sheet) {
		st := g.Stats()
		add(w, "sluice_process_memory_limit_bytes", "Memory that the process may use.", st.Limit)
		add(w, "sluice_process_memory_live_bytes", "Memory in use, without garbage.", st.Live)
		add(w, "sluice_memory_pressure", "1 while the process is short of memory.", one(st.Pressed))
		add(w, "sluice_memory_pressure_begun_total", "Times that the process came to be short of memory.", st.Begun)
		by(w, "sluice_memory_pressure_evicted_total", "Full buckets and cached answers that were dropped because memory was short.", "what", st.Evicted)
	})
}

// Alarms shows what became of the alarms that a webhook gets.
func Alarms(h *alarm.Hook) prometheus.Collector {
	return figures(func(w *sheet) {
		st := h.Stats()
		by(w, "sluice_alarms_total", "Alarms for the webhook, by what became of them: posted, failed, or dropped because too many waited.", "outcome",
			map[string]int64{"posted": st.Posted, "failed": st.Failed, "dropped": st.Dropped})
	})
}

const (
	clockSteps = "Steps of the store's clock that were seen."
	clockGaps  = "Times that nothing was heard of the store's clock for over 15 s."
)

// Postgres shows the figures of a store on PostgreSQL.
func Postgres(s *pglimits.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		add(w, "sluice_postgres_takes_total", "Takes that the database decided.", st.Takes)
		add(w, "sluice_postgres_batches_total", "Statements in which these takes were sent; several go together under load.", st.Batches)
		by(w, "sluice_clock_steps_total", clockSteps, "direction", map[string]int64{"back": st.ClockBack, "forward": st.ClockForward})
		add(w, "sluice_clock_gaps_total", clockGaps, st.ClockGaps)
		replica(w, st.ReplicaReads, st.ReplicaSkips, st.ReplicaLag, st.ReplicaLagKnown)
	})
}

// replica shows what is read from a replica.
func replica(w *sheet, reads, skips int64, lag time.Duration, known bool) {
	by(w, "sluice_replica_lists_total", "Lists read from the replica, and those that were not because it was too far behind.", "outcome",
		map[string]int64{"read": reads, "skipped": skips})
	if known {
		add(w, "sluice_replica_lag_seconds", "How far the replica is behind at most.", lag.Seconds())
	}
}

// Redis shows the figures of a store on Redis.
func Redis(s *redislimits.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		by(w, "sluice_clock_steps_total", clockSteps, "direction", map[string]int64{"back": st.ClockBack, "forward": st.ClockForward})
		add(w, "sluice_clock_gaps_total", clockGaps, st.ClockGaps)
		replica(w, st.ReplicaReads, st.ReplicaSkips, st.ReplicaLag, st.ReplicaLagKnown)
	})
}

// DynamoDB shows the figures of a store on DynamoDB.
func DynamoDB(s *dynamolimits.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		add(w, "sluice_dynamodb_requests_total", "Requests to DynamoDB.", st.Requests)
		by(w, "sluice_dynamodb_speculations_total", "Takes that were written without a read, and such writes whose condition failed.", "outcome",
			map[string]int64{"taken": st.Speculated, "missed": st.Missed})
		add(w, "sluice_dynamodb_conflicts_total", "Writes that others have come before, and that were decided again.", st.Conflicts)
		add(w, "sluice_dynamodb_clock_behind_seconds", "The most that this machine's clock was behind the time of a bucket, which another node has written.", st.Ahead.Seconds())
		if st.SkewKnown {
			add(w, "sluice_dynamodb_clock_ahead_seconds", "How far this machine's clock is ahead of the service's, at least.", st.Skew.Seconds())
		}
	})
}

// Connections shows the connections to Redis.
func Connections(to interface{ Connections() (open, opened int64) }) prometheus.Collector {
	return figures(func(w *sheet) {
		open, opened := to.Connections()
		add(w, "sluice_redis_connections", "Connections to Redis that are open.", open)
		add(w, "sluice_redis_connections_opened_total", "Connections to Redis that were opened.", opened)
	})
}

// Pooled is a job with its own pool of connections to PostgreSQL.
type Pooled interface{ Pool() postgres.Pool }

// Pools shows the pools of connections to PostgreSQL, by job.
func Pools(jobs map[string]Pooled) prometheus.Collector {
	return figures(func(w *sheet) {
		most, inUse, idle, waits, waited := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int64{}, map[string]float64{}
		for name, job := range jobs {
			p := job.Pool()
			most[name], inUse[name], idle[name] = p.Max, p.InUse, p.Open-p.InUse
			waits[name], waited[name] = p.Waits, p.Waited.Seconds()
		}
		by(w, "sluice_pool_max_connections", "Most connections to PostgreSQL, by job.", "pool", most)
		by(w, "sluice_pool_used_connections", "Connections to PostgreSQL in use, by job.", "pool", inUse)
		by(w, "sluice_pool_idle_connections", "Connections to PostgreSQL that are open and not in use, by job.", "pool", idle)
		by(w, "sluice_pool_waits_total", "Calls that found no connection free, by job.", "pool", waits)
		by(w, "sluice_pool_wait_seconds_total", "Time that calls have waited for a connection, by job.", "pool", waited)
	})
}

// Advance shows the figures of tokens held ahead of need.
func Advance(s *advance.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		add(w, "sluice_held_hits_total", "Takes decided with tokens in hand.", st.Held)
		add(w, "sluice_deny_cache_hits_total", "Takes refused by the deny cache.", st.Denied)
		add(w, "sluice_exact_takes_total", "Takes that the store decided.", st.Exact)
		add(w, "sluice_holds_asked_total", "Requests for tokens in advance.", st.Asked)
		add(w, "sluice_holds_granted_total", "Requests for tokens in advance that got some.", st.Granted)
		add(w, "sluice_holds_returned_total", "Holds given back.", st.Returned)
		add(w, "sluice_holds_distrusted_total", "Times that all holds were dropped because a clock ran ahead.", st.Distrusted)
		add(w, "sluice_held_buckets", "Buckets of which this node has tokens or refusals.", st.Buckets)
	})
}

// Failover shows the state of the shared store and what was decided without it.
func Failover(s *failover.Store) prometheus.Collector {
	return figures(func(w *sheet) {
		st := s.Stats()
		now, entered, spent := map[string]float64{}, map[string]int64{}, map[string]float64{}
		for _, state := range []failover.State{failover.Normal, failover.Open, failover.HalfOpen, failover.Testing, failover.Partial, failover.Stabilizing} {
			name := state.String()
			now[name], entered[name], spent[name] = one(st.State == state), st.Entered[state], st.Spent[state].Seconds()
		}
		allowed, refused := map[string]int64{}, map[string]int64{}
		for tier, n := range st.Degraded {
			allowed[tier], refused[tier] = n.Allowed, n.Refused
		}
		by(w, "sluice_store_state", "1 for the state that the store is in: normal, open, half-open or a phase of recovery.", "state", now)
		by(w, "sluice_store_state_entered_total", "How often each state was entered.", "state", entered)
		by(w, "sluice_store_state_seconds_total", "Total time spent in each state.", "state", spent)
		by(w, "sluice_store_errors_total", "Calls that the store failed, by how.", "kind", map[string]int64{"timeout": st.TimedOut, "lost": st.Lost, "unreachable": st.Unreachable, "faulty": st.Faulty, "busy": st.Busy, "record": st.Unreadable, "unacknowledged": st.Unacknowledged})
		by(w, "sluice_degraded_allowed_total", "Takes allowed by local quotas, by tier.", "tier", allowed)
		by(w, "sluice_degraded_refused_total", "Takes refused by local quotas, by tier.", "tier", refused)
		add(w, "sluice_unknown_total", "Local decisions on takes that the store may have counted too.", st.Unknown)
		add(w, "sluice_unknown_adjusts_total", "Adjustments and settlements that may or may not have happened.", st.UnknownAdjusts)
		add(w, "sluice_store_recoveries_total", "Times that the store was back to normal.", st.Recoveries)
		add(w, "sluice_degraded_buckets", "Local quotas that are not full.", st.Buckets)
		add(w, "sluice_degraded_bytes", "Memory of local quotas, in bytes.", st.Bytes)
		add(w, "sluice_degraded_overflowed_total", "Local takes that had to share a quota.", st.Overflowed)
		add(w, "sluice_degraded_leases", "Leases given locally and still open.", st.Leases)
		add(w, "sluice_degraded_unlisted_total", "Leases given locally whose cost was not kept, because there were too many.", st.Unlisted)
		add(w, "sluice_store_next_probe_seconds", "Time until a store that is not asked is tried again; 0 if it is asked.", st.NextProbe.Seconds())
	})
}
