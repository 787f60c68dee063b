package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

const waiving = `
version: 1
limits: {tokens: {per: ip, limit: {tpm: 100/week}}}
endpoints: {complete: {match: /complete, cost: {tpm: 10}, settle: {tpm: X-Tokens-Used}}}
idempotency: {complete: {match: /complete}}
headers: {send: [ietf]}
`

// TestWhatIsWaivedIsGivenBackOnce: the response has told a lower cost than was
// taken, and is then to cost nothing.
func TestWhatIsWaivedIsGivenBackOnce(t *testing.T) {
	s := serve(t, gate(t, waiving).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Do") {
		case "spend":
			httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(50))
		case "waive":
			httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(2))
			httplimit.Admitted(r.Context()).Waive(sluice.Amount{})
		case "waive more":
			httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(30))
			httplimit.Admitted(r.Context()).Waive(sluice.Tokens(1))
		}
	})))
	ask(t, s.URL, "GET", "/complete", "X-Do", "spend")
	ask(t, s.URL, "GET", "/complete", "X-Do", "waive")
	if r := remaining(t, s.URL, "tokens-tpm"); r != 40 { // and this one takes 10
		t.Errorf("%d remain, want 40", r)
	}
	ask(t, s.URL, "GET", "/complete", "X-Do", "waive more")
	if r := remaining(t, s.URL, "tokens-tpm"); r != 29 {
		t.Errorf("%d remain, want 29", r)
	}
}
