package scheduletest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/schedule"
)

// Database is a fresh database for one test. Open opens a store on it, as a
// node of its own each time; the store ends with the test.
type Database struct {
	Open func() schedule.Store
}

// Run runs all tests, each on a database of its own.
func Run(t *testing.T, fresh func(t *testing.T) Database) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"events fill one window after the other", fillsWindows},
		{"an event keeps its slot", keepsSlot},
		{"bad requests are refused", refusesBadRequests},
		{"times in the past mean now", pastMeansNow},
		{"a batch is like its events", batchIsLikeItsEvents},
		{"a batch over many windows", batchOverManyWindows},
		{"a batch tells each event its own result", batchTellsEach},
		{"more than one preparation", preparesMore},
		{"windows that are over before they are searched", tinyWindows},
		{"raising the maximum shows room at once", raising},
		{"lowering the maximum moves nothing", lowering},
		{"a new window size applies where nothing is scheduled", newWindowSize},
		{"a new window size beside an event in years", newSizeBesideFarEvents},
		{"versions are kept and one is active", versions},
		{"a new version counts at once on other nodes", staleNodes},
		{"a flush reaches other nodes", flushReachesOthers},
		{"closed times are passed over", closedTimes},
		{"a calendar can be changed", calendarChanged},
		{"exhaustion tells how deep it searched", exhaustion},
		{"windows fill as far as the headroom reaches", headroom},
		{"nothing is scheduled after the latest time wanted", notAfter},
		{"cancelling gives the room back", cancelling},
		{"claims are exclusive and fenced", claims},
		{"a claim that ran out is lost", lostClaims},
		{"pausing stops claims", pausing},
		{"owners confirm what they started", confirming},
		{"owners hand over, and take back", handingOver},
		{"reconciliation reclaims what never started", reconciling},
		{"what waits for a worker is not leaked", waitingIsNotLeaked},
		{"what has failed is listed, requeued and cancelled", failing},
		{"what is leaked is requeued", requeuesLeaked},
		{"what may have been executed is unknown until it is settled", unknown},
		{"a plan keeps its target", targets},
		{"work is handed out with a deadline", working},
		{"lookups and load", lookups},
		{"namespaces are apart", namespaces},
		{"sweeping removes what is over", sweeping},
		{"sweeping goes by the end of long windows", sweepsLongWindows},
		{"sweeping leaves room as it is", sweepLeavesRoom},
		{"sweeping the audit log", sweepsAudit},
		{"sweeping in small steps", sweepsInSteps},
		{"namespaces with plans are listed", namespacesListed},
		{"erasing a namespace leaves nothing of it, and all of others", erasing},
		{"erasing while events are assigned and claimed", erasingBusy},
		{"many writers, some events twice", manyWriters},
		{"many claimers", manyClaimers},
		{"many sweepers while events are assigned", manySweepers},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &bench{Database: fresh(t), clock: testclock.New(noon)}
			b.store = b.Open()
			b.Scheduler = b.node(t, b.store, "")
			test.run(t, b)
		})
	}
}

// noon is when the tests begin: a Monday.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// bench is a scheduler on a fresh database, with a clock of its own.
type bench struct {
	Database
	*schedule.Scheduler
	store schedule.Store
	clock *testclock.Clock
}

// node is another scheduler.
func (b *bench) node(t *testing.T, store schedule.Store, namespace string) *schedule.Scheduler {
	t.Helper()
	s, err := schedule.New(schedule.Config{Store: store, Namespace: namespace, Clock: b.clock.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bench) plan(t *testing.T, p schedule.Plan) schedule.Plan {
	t.Helper()
	if p.Name == "" {
		p.Name = "p"
	}
	saved, err := b.SetPlan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// active is what the store has of a plan.
func (b *bench) active(t *testing.T, namespace, name string) schedule.ActivePlan {
	t.Helper()
	plans, err := b.store.Plans(t.Context(), schedule.PlanQuery{Namespace: namespace, Name: name, Max: 1})
	if err != nil || len(plans) != 1 {
		t.Fatalf("%v: plans %+v", err, plans)
	}
	return plans[0]
}

// small is a plan of three events in four seconds.
func small() schedule.Plan { return schedule.Plan{Name: "p", MaxPerWindow: 3} }

func (b *bench) assign(t *testing.T, event string, at time.Time) schedule.Slot {
	t.Helper()
	slot, err := b.Assign(t.Context(), schedule.Request{Event: event, Plan: "p", At: at})
	if err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	if slot.Scheduled.Before(at) {
		t.Errorf("%s is scheduled at %s, before %s", event, slot.Scheduled, at)
	}
	return slot
}

// used is how many events each window has, by seconds since noon. It checks
// that counters agree with slots, and each slot with its window.
func (b *bench) used(t *testing.T) map[int]int {
	t.Helper()
	return Count(t, b.store, b.Scheduler, "", "p")
}

// Count is how many events each window of a plan has, by seconds since the
// suite's noon. It fails the test if counters and slots do not agree, or a
// slot lies outside its window.
func Count(t *testing.T, store schedule.Store, s *schedule.Scheduler, namespace, plan string) map[int]int {
	t.Helper()
	ctx := context.Background()
	end := time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC)
	windows, err := store.Windows(ctx, schedule.Selection{Namespace: namespace, Plan: plan, From: time.UnixMicro(0), To: end, Max: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	sizes, counters := map[int64]int64{}, map[int64]int{}
	for _, w := range windows {
		sizes[w.Start], counters[w.Start] = w.Size, w.Used
	}
	counted := map[int]int{}
	events := map[string]bool{}
	for q := (schedule.SlotQuery{Plan: plan, From: time.UnixMicro(0), To: end, Max: 1000}); ; {
		page, err := s.Slots(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range page.Slots {
			if events[slot.Event] {
				t.Fatalf("event %s is there twice", slot.Event)
			}
			events[slot.Event] = true
			if slot.State == schedule.Cancelled || slot.State == schedule.Leaked {
				continue
			}
			start := slot.Window.UnixMicro()
			if at := slot.Scheduled.UnixMicro(); at < start || at >= start+sizes[start] {
				t.Errorf("%s at %s is outside its window %s of %dµs", slot.Event, slot.Scheduled, slot.Window, sizes[start])
			}
			counted[int(slot.Window.Sub(noon)/time.Second)]++
			counters[start]--
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	for start, n := range counters {
		if n != 0 {
			t.Errorf("window %s counts %d more events than there are", time.UnixMicro(start).UTC(), n)
		}
	}
	return counted
}
