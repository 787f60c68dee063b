package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// Whoever waits in line when the server shuts down is told to come back, at
// once, and nothing is consumed for them.
func TestShutdownEndsWaits(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	must(c.SetLimits(t.Context(), catalog.Scope{}, limits("one", "1/20s"), 0))(t)
	take := client.Take{Entity: "alice"}
	must(c.Take(t.Context(), take))(t)
	began := time.Now()
	result := make(chan error, 1)
	go func() {
		_, err := c.Wait(t.Context(), take)
		result <- err
	}()
	// It has taken what is due later once the bucket is in debt.
	for {
		d, err := s.limiter.Peek(t.Context(), sluice.Demand{
			Key: sluice.Key{Namespace: "default", Entity: "alice", Limit: "one"}, Limit: sluice.MustParse("1/20s"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if d.Results[0].Remaining < 0 {
			break
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var refused *sluice.RefusedError
	if err := <-result; !errors.As(err, &refused) || refused.RetryAfter < time.Second {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("it took %s", took)
	}
	d := must(s.limiter.Peek(t.Context(), sluice.Demand{
		Key: sluice.Key{Namespace: "default", Entity: "alice", Limit: "one"}, Limit: sluice.MustParse("1/20s"),
	}))(t)
	if d.Results[0].Remaining != 0 {
		t.Errorf("there is %s left", d.Results[0].Remaining)
	}
}
