package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

var sent = idempotency.Scope{Tenant: "acme", Method: "SEND", Route: "order.created", Key: "order 17"}

// TestAWebhookThatMayHaveBeenExecutedIsNotSentAgain, whatever the receiver did,
// until somebody has settled it.
func TestAWebhookThatMayHaveBeenExecutedIsNotSentAgain(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for name, behave := range map[string]http.HandlerFunc{
		"500":                  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"503 with Retry-After": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "0"); w.WriteHeader(503) },
		"408":                  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(408) },
		"drops":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"takes too long": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			var warm atomic.Bool
			r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if warm.Swap(false) {
					return
				}
				runs.Add(1)
				behave(w, r)
			}))
			defer r.Close()
			k := memoryKeeper(t)
			c := call(r.URL)
			c.Timeout = 100 * time.Millisecond
			c.Client = r.Client()
			for _, method := range []string{"POST", "DELETE"} {
				warm.Store(true)
				if response, err := c.Client.Get(r.URL); err != nil {
					t.Fatal(err)
				} else {
					response.Body.Close()
				}
				runs.Store(0)
				c.Method, c.Key, c.Body = method, method, nil
				s := sent
				s.Key = method
				for range 3 {
					if _, err := idempotency.Send(t.Context(), k, c); !errors.Is(err, idempotency.ErrOutcomeUnknown) || errors.Is(err, idempotency.ErrNotDelivered) {
						t.Fatalf("%s: %v", method, err)
					}
				}
				if record, _, err := k.Lookup(t.Context(), s); err != nil || !record.Crashed {
					t.Errorf("%s: record %+v, %v", method, record, err)
				}
				if err := k.Settle(t.Context(), s, &idempotency.Response{Status: 200}); err != nil {
					t.Fatal(err)
				}
				if d, err := idempotency.Send(t.Context(), k, c); err != nil || !d.Replayed || d.Status != 200 || runs.Load() != 1 {
					t.Errorf("%s: delivery %+v, %v, %d runs", method, d, err, runs.Load())
				}
			}
		})
	}
}

// TestASenderThatDiesLeavesItUnknown: nobody knows whether it had sent.
func TestASenderThatDiesLeavesItUnknown(t *testing.T) {
	r := newReceiver(t, 200)
	k := memoryKeeper(t)
	c := call(r.URL)
	ctx, cancel := context.WithCancel(t.Context())
	r.gate = make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := idempotency.Send(ctx, k, c)
		done <- err
	}()
	eventually(t, "it was sent", func() bool { return r.inFlight.Load() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it was under way: %v", err)
	}
	close(r.gate)
	if _, err := idempotency.Send(t.Context(), k, c); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		t.Errorf("afterwards: %v", err)
	}
	r.want(t, 1)
	if err := k.Settle(t.Context(), sent, nil); err != nil {
		t.Fatal(err)
	}
	if d, err := idempotency.Send(t.Context(), k, c); err != nil || d.Replayed {
		t.Errorf("settled as never run: %+v, %v", d, err)
	}
	r.want(t, 2)
}
