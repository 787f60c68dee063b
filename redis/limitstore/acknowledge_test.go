package limitstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestCriticalTakesWaitForReplicas: a critical take that no replica acknowledges
// is unknown and stays, and nothing else waits for replicas.
func TestCriticalTakesWaitForReplicas(t *testing.T) {
	primary := redistest.Start(t)
	replica := redistest.StartReplica(t, primary)
	s := open(t, redis.Config{Address: primary.URL(), Timeout: time.Second, Replicas: 1})
	patient := open(t, redis.Config{Address: primary.URL(), Timeout: time.Minute, Replicas: 1})
	limit := sluice.MustParse("3/day")
	take := func(store sluice.Store, entity string, critical bool) (sluice.Decision, error) {
		var d sluice.Decision
		demand := sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "day"}, Limit: limit, Critical: critical}
		err := store.Take(t.Context(), &sluice.Take{Demands: []sluice.Demand{demand}}, &d)
		return d, err
	}
	for range 2 {
		if d, err := take(patient, "a", true); err != nil || !d.Allowed {
			t.Fatalf("with its replica: %+v, %v", d, err)
		}
	}
	replica.Kill()
	if _, err := take(s, "a", true); !errors.Is(err, sluice.ErrUnacknowledged) || !errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("without its replica: %v", err)
	}
	if d, err := take(s, "a", true); err != nil || d.Allowed || d.Results[0].Remaining.Thousandths() != 0 {
		t.Errorf("the take that was not acknowledged is undone, or a refusal waits: %+v, %v", d, err)
	}
	if d, err := take(s, "b", false); err != nil || !d.Allowed {
		t.Errorf("a take that is not critical: %+v, %v", d, err)
	}

	guarded, err := failover.New(s, failover.Config{Timeout: time.Second, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	for _, entity := range []string{"c", "d", "e", "f"} {
		if d, err := take(guarded, entity, true); err != nil || d.Allowed || d.Source != sluice.Unknown {
			t.Errorf("with failover: %+v, %v", d, err)
		}
	}
	if st := guarded.Stats(); st.State != failover.Normal || st.Unacknowledged != 4 || st.Lost != 0 {
		t.Errorf("the store is blamed for its replicas: %+v", st)
	}
}

// TestCriticalTakesWaitForReplicasInACluster: so does one over several slots.
func TestCriticalTakesWaitForReplicasInACluster(t *testing.T) {
	c := redistest.StartCluster(t)
	s := open(t, redis.Config{Address: c.URL(), Timeout: time.Second, Replicas: 1})
	patient := open(t, redis.Config{Address: c.URL(), Timeout: time.Minute, Replicas: 1})
	var take sluice.Take
	for _, entity := range []string{"a", "b", "c", "d"} {
		take.Demands = append(take.Demands, sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "day"}, Limit: sluice.MustParse("9/day"), Critical: true})
	}
	var d sluice.Decision
	if err := patient.Take(t.Context(), &take, &d); err != nil || !d.Allowed {
		t.Fatalf("with all replicas: %+v, %v", d, err)
	}
	primaries := c.Primaries()
	for _, p := range primaries {
		for _, node := range c.Shard(p)[1:] {
			node.Kill()
		}
	}
	if err := s.Take(t.Context(), &take, &d); !errors.Is(err, sluice.ErrUnacknowledged) {
		t.Errorf("without replicas: %+v, %v", d, err)
	}
	take.Peek = true
	if err := s.Take(t.Context(), &take, &d); err != nil {
		t.Fatal(err)
	}
	for i := range d.Results {
		if left := d.Results[i].Remaining.Whole(); left != 7 {
			t.Errorf("%d remain of %s, want 7: nothing is undone", left, take.Demands[i].Key.Entity)
		}
	}
}
