package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

// FuzzTakeBody sends any body: it is answered with a decision or with a
// problem that names a field, and never with a failure of the server.
func FuzzTakeBody(f *testing.F) {
	for _, seed := range []string{
		`{"entity":"alice","resource":"api","cost":1.5,"limits":{"rpm":"100/minute","day":"5/day Europe/Madrid"},"peek":true}`,
		`{"entity":"alice","limits":{"c":"5 concurrent","s":"1/s sliding","f":"1/s fixed"}}`,
		`{"entity":"alice","cost":-0}`,
		`{"entity":"\ud800","cost":null,"limits":null}`,
		`{"Entity":"x","entity":"y"}{}`,
		`[[[[`,
		``,
	} {
		f.Add(seed)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := store.Close(); err != nil {
			f.Error(err)
		}
	})
	handler, err := server.Handler(server.Config{
		Limiter: sluice.New(store),
		Limits:  map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)},
		Access:  server.Access{Open: true},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/take", strings.NewReader(body)))
		var answer struct {
			Allowed      *bool
			RetryAfterMs *int64
			Never        bool
			Limit        string
			Field        string
			Results      []any
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		switch w.Code {
		case 200, 429:
			if answer.Allowed == nil || *answer.Allowed != (w.Code == 200) || len(answer.Results) == 0 {
				t.Errorf("%d with %s", w.Code, w.Body)
			}
			if answer.Never != (answer.RetryAfterMs == nil) {
				t.Errorf("never and a time to retry contradict: %s", w.Body)
			}
			if retry := w.Header().Get("Retry-After") != ""; retry != (w.Code == 429 && !answer.Never) {
				t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
		case 400, 413:
			if answer.Field == "" {
				t.Errorf("no field in %s", w.Body)
			}
		default:
			t.Errorf("%d with %s", w.Code, w.Body)
		}
	})
}
