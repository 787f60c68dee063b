package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
)

// TestRepeatedWrites: the second request with a key gets the first one's
// response and, by default, pays nothing for it.
func TestRepeatedWrites(t *testing.T) {
	for cost, want := range map[string]string{"none": "r=7", "one": "r=6", "full": "r=5"} {
		t.Run(cost, func(t *testing.T) {
			var runs atomic.Int64
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := runs.Add(1)
				w.WriteHeader(http.StatusCreated)
				fmt.Fprintf(w, "order %d", n)
			}))
			defer upstream.Close()
			store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			keeper, err := idempotency.New(idempotency.Config{Store: store, Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer keeper.Close()
			g := gate(t, fmt.Sprintf(`
version: 1
limits: {all: {per: ip, limit: 10/week}}
endpoints: {orders: {match: POST /orders, cost: 2}, look: {match: GET /orders, cost: 1}}
headers: {send: [ietf]}
idempotency: {orders: {match: POST /orders, required: true, replay_cost: %s}}
`, cost))
			_, url := running(t, gateway.Config{Upstream: upstream.URL, Gate: g, Inner: httplimit.Idempotent(keeper)})
			order := func(key, body string) (*http.Response, string) {
				r, err := http.NewRequest("POST", url+"/orders", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if key != "" {
					r.Header.Set("Idempotency-Key", key)
				}
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return response, string(text)
			}
			first, body := order(`"k1"`, "a")
			if first.StatusCode != 201 || body != "order 1" || first.Header.Get("Idempotent-Replay") != "" {
				t.Fatalf("first: %d %q %v", first.StatusCode, body, first.Header)
			}
			again, body := order(`"k1"`, "a")
			if again.StatusCode != 201 || body != "order 1" || again.Header.Get("Idempotent-Replay") != "true" || runs.Load() != 1 {
				t.Fatalf("again: %d %q %v, %d runs", again.StatusCode, body, again.Header, runs.Load())
			}
			look, err := http.Get(url + "/orders")
			if err != nil {
				t.Fatal(err)
			}
			look.Body.Close()
			// 10, less 2 for the order, what the replay costs, and 1 for looking.
			if got := look.Header.Get("RateLimit"); !strings.Contains(got, want) {
				t.Errorf("left: %s, want %s", got, want)
			}
			if other, _ := order(`"k1"`, "b"); other.StatusCode != 422 {
				t.Errorf("another body: %d", other.StatusCode)
			}
			if missing, _ := order("", "a"); missing.StatusCode != 400 {
				t.Errorf("no key: %d", missing.StatusCode)
			}
		})
	}
}
