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
	must(c.SetLimits(t.Context(), catalog.Scope{}, limits("one", "1/50s"), 0))(t)
	take := client.Take{Entity: "alice"}
	must(c.Take(t.Context(), take))(t)
	result := make(chan error, 1)
	go func() {
		_, err := c.Wait(t.Context(), take)
		result <- err
	}()
	for s.limiter.WaitingAll().Length == 0 {
		<-time.After(time.Millisecond)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var refused *sluice.RefusedError
	if err := <-result; !errors.As(err, &refused) || refused.RetryAfter < time.Second {
		t.Errorf("got %v", err)
	}
	if n := s.limiter.WaitingAll().Length; n != 0 {
		t.Errorf("%d still wait", n)
	}
	d := must(s.limiter.Peek(t.Context(), sluice.Demand{
		Key: sluice.Key{Namespace: "default", Entity: "alice", Limit: "one"}, Limit: sluice.MustParse("1/50s"),
	}))(t)
	if d.Results[0].Remaining.Thousandths() < 0 {
		t.Errorf("there is %s left", d.Results[0].Remaining)
	}
}
