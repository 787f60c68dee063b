package envoy_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/server/envoy"
)

// awayStore is a store that cannot be reached.
type awayStore struct{ sluice.Store }

func (awayStore) Take(context.Context, *sluice.Take, *sluice.Decision) error {
	return sluice.ErrUnavailable
}

func openAway(t *testing.T, settings envoy.Settings) *envoy.Service {
	t.Helper()
	store, err := failover.New(awayStore{memoryStore(t)}, failover.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := openOn(t, store, write(t, map[string]string{"test.yaml": manyRules}), settings)
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // nothing is kept
	return s
}

// While the store is away Envoy gets an error, so that its failure_mode_deny
// decides.
func TestAnOutageIsAnError(t *testing.T) {
	s := openAway(t, envoy.Settings{})
	for range 5 {
		answer, err := s.ShouldRateLimit(t.Context(), request("shop", d("user", "alice")))
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("%v, %v", answer, err)
		}
	}
}

// seenStore keeps what was asked of it.
type seenStore struct {
	sluice.Store
	away []sluice.OnUnavailable
}

func (s *seenStore) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	for i := range t.Demands {
		s.away = append(s.away, t.Demands[i].OnUnavailable)
	}
	return s.Store.Take(ctx, t, d)
}

// A store that is coming back after an outage is asked about all that has no
// local answer: it is not an error for as long as others are spared.
func TestTheStoreIsAskedOnceItIsBack(t *testing.T) {
	for want, settings := range map[sluice.OnUnavailable]envoy.Settings{sluice.Deny: {}, sluice.Degrade: {LocalQuotas: true}} {
		store := &seenStore{Store: memoryStore(t)}
		s := openOn(t, store, write(t, map[string]string{"test.yaml": manyRules}), settings)
		ask(t, s, request("shop", d("user", "alice")))
		if len(store.away) != 1 || store.away[0] != want {
			t.Errorf("%+v: asked with %v, want %v", settings, store.away, want)
		}
	}
}

// By choice local quotas decide. What they say of the limit is nothing.
func TestLocalQuotasByChoice(t *testing.T) {
	s := openAway(t, envoy.Settings{LocalQuotas: true, Headers: true})
	q := request("shop", d("user", "alice"))
	for _, want := range []string{"OK, OK", "OK, OK", "OVER, OVER"} {
		answer := ask(t, s, q)
		st := answer.GetStatuses()[0]
		if outline(answer) != want || st.GetCurrentLimit() != nil || st.GetLimitRemaining() != 0 || len(answer.GetResponseHeadersToAdd()) != 0 {
			t.Errorf("%v, want %s", answer, want)
		}
		if wait := st.GetDurationUntilReset().GetSeconds(); want == "OVER, OVER" && (wait < 1 || wait > 60) {
			t.Errorf("a local quota of 2.5 a minute has more in %d s", wait)
		}
	}
}

func TestHealthFollowsReadiness(t *testing.T) {
	var ready atomic.Bool
	s, err := envoy.Open(envoy.Config{
		Limiter: sluice.New(memoryStore(t)), Dir: write(t, map[string]string{"test.yaml": manyRules}), Ready: ready.Load,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is kept
	for _, want := range []bool{true, false, true} {
		ready.Store(want)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/healthcheck", nil))
		if (w.Code == 200) != want {
			t.Errorf("ready %t: %d", want, w.Code)
		}
		for { // within a second, on a machine that is not busy
			answer, err := s.Health().Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
			if err != nil {
				t.Fatal(err)
			}
			if (answer.GetStatus() == healthpb.HealthCheckResponse_SERVING) == want {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
