package server_test

import (
	"errors"
	"strings"
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

// Whoever waits is judged by the limits of the moment, at every door that waits.
func TestLimitsChangeWhileSomebodyWaits(t *testing.T) {
	for name, path := range map[string]string{"take": "/v1/take", "lease": "/v1/leases"} {
		for change, want := range map[string]struct {
			before, after string
			answer        string // of whoever waits
		}{
			"raised":  {"3/h", "1000/s", `"allowed":true`},
			"lowered": {"3/h", "1/hour", `"never":true`},
		} {
			t.Run(name+" "+change, func(t *testing.T) {
				t.Parallel()
				s := stage(t, nil)
				c := s.admin(t)
				set := must(c.SetLimits(t.Context(), catalog.Scope{Entity: "alice"}, limits("x", want.before), 0))(t)
				must(c.Take(t.Context(), client.Take{Entity: "alice", Cost: sluice.Tokens(3)}))(t)
				result := make(chan reply, 1)
				go func() {
					result <- s.raw(t, "POST", path, `{"entity":"alice","cost":3,"wait":"50s"}`, bearer(adminToken))
				}()
				for s.limiter.WaitingAll().Length == 0 {
					<-time.After(time.Millisecond)
				}
				must(c.SetLimits(t.Context(), catalog.Scope{Entity: "alice"}, limits("x", want.after), set.Version))(t)
				if r := <-result; !strings.Contains(r.body, want.answer) || !strings.Contains(r.body, `"rule":"`+want.after+`"`) {
					t.Errorf("%d %s", r.status, r.body)
				}
			})
		}
	}
}

func TestWaitsThatCannotBe(t *testing.T) {
	s := stage(t, nil)
	for _, field := range []string{"wait", "keep"} {
		r := s.raw(t, "POST", "/v1/leases", `{"entity":"alice","`+field+`":"-1s"}`, bearer(adminToken))
		if detail, _ := r.json["detail"].(string); r.status != 400 || !strings.Contains(detail, "must be between 0 and ") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}
