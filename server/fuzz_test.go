package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"reflect"
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
		handler.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1/v1/take", strings.NewReader(body)))
		var answer struct {
			Allowed    *bool
			RetryAfter *float64
			Never      bool
			Limit      string
			Field      string
			Results    []any
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		switch w.Code {
		case 200, 429:
			if answer.Allowed == nil || *answer.Allowed != (w.Code == 200) || len(answer.Results) == 0 {
				t.Errorf("%d with %s", w.Code, w.Body)
			}
			if answer.Never != (answer.RetryAfter == nil) {
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

// FuzzQuickTake compares the two ways in which takes are read: what the quick
// one reads, the usual one reads the same.
func FuzzQuickTake(f *testing.F) {
	for _, seed := range []string{
		`{"entity":"alice","resource":"api","cost":1}`,
		` { "entity" : "a" , "cost" : 0.5 , "peek" : true, "upTo":false } `,
		`{"entity":"a","entity":"b","cost":01}`,
		`{"entity":"a","cost":1.}`,
		`{"entity":"a","cost":.5}`,
		`{"entity":"a","cost":00}`,
		`{"entity":"a\u0041","tier":"\u007f"}`,
		`{"entity":"a",}`,
		`{"entity":"a"}{}`,
		`{"peek":trueish}`,
		`{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		quick, usual, ok, err := server.QuickTake(body)
		if !ok {
			return
		}
		if err != nil || !reflect.DeepEqual(quick, usual) {
			t.Errorf("%q: quickly %+v, usually %+v, %v", body, quick, usual, err)
		}
	})
}

// bodies are the routes that read one, with examples.
var bodies = []struct{ method, path, example string }{
	{"POST", "/v1/takes", `{"takes":[{"entity":"a","cost":{"own":1}},{"entity":"b"}]}`},
	{"POST", "/v1/leases", `{"entity":"a","limits":{"c":"5 concurrent"},"keep":"1m"}`},
	{"PATCH", "/v1/leases/l", `{"costs":{"own":2.5},"keep":"60s"}`},
	{"POST", "/v1/leases/l/commit", `{"costs":{"own":0}}`},
	{"POST", "/v1/adjust", `{"entity":"a","cost":{"own":-1}}`},
	{"POST", "/v1/reset", `{"entity":"a"}`},
	{"POST", "/v1/explain", `{"entity":"a","tier":"pro"}`},
	{"PUT", "/v1/entities/a", `{"name":"A","parent":"b","cascade":true,"tier":"pro","metadata":{"k":"v"}}`},
	{"PUT", "/v1/limits/system", `{"limits":{"own":"1/week burst 3","tpm":{"rule":"10k/minute","onUnavailable":"allow","critical":true,"shadow":true}}}`},
	{"PUT", "/v1/overrides/a/own", `{"rule":"5/s","for":"1h","until":"2099-01-01T00:00:00Z","reason":"x","resource":"r"}`},
	{"POST", "/v1/keys", `{"entity":"a","scopes":["sluice:read"],"expires":"2099-01-01T00:00:00Z"}`},
	{"POST", "/v1/plan", "version: 1\nsystem: {limit: 5/s}\n"},
	{"POST", "/v1/slots/plans", `{"name":"p","maxPerWindow":5,"windowSize":"4s","headroom":10,"calendar":{"zone":"UTC","hours":{"monday":["09:00-17:00"]}}}`},
	{"POST", "/v1/slots/assign", `{"event":"e","plan":"p","at":"2030-01-01T00:00:00Z","payload":{"any":[1,null]}}`},
	{"POST", "/v1/slots/batch", `{"events":[{"event":"e"},{"event":""}]}`},
	{"POST", "/v1/slots/reconcile", `{"plan":"p","age":"10m","overdue":true,"dryRun":true,"started":["e"]}`},
	{"POST", "/v1/slots/events/e/complete", `{"fence":1,"failure":"x"}`},
	{"POST", "/v1/replays/claim", `{"method":"POST","route":"/x","key":"k","token":"000102030405060708090a0b0c0d0e0f","life":"30s","ttl":86400000,"takeOver":true}`},
	{"POST", "/v1/replays/complete", `{"method":"POST","route":"/x","key":"k","token":"000102030405060708090a0b0c0d0e0f","response":{"status":200,"header":{"A":["b"]},"body":"aGk="}}`},
}

// FuzzBodies sends any body to any route that reads one: it is answered with
// something or with a problem, and never with a failure of the server.
func FuzzBodies(f *testing.F) {
	for i := range bodies {
		for j := range bodies {
			if i == j || i%5 == j%5 {
				f.Add(uint8(i), bodies[j].example)
			}
		}
		f.Add(uint8(i), `null`)
		f.Add(uint8(i), `{"a":`)
	}
	s := stage(f, open)
	f.Fuzz(func(t *testing.T, route uint8, body string) {
		to := bodies[int(route)%len(bodies)]
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest(to.method, "http://127.0.0.1"+to.path, strings.NewReader(body)))
		if w.Code >= 500 && w.Code != 503 { // a schedule may be full
			t.Errorf("%s with %q: %d %s", to.path, body, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Code != 429 {
			var p struct{ Title, Code, Detail string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Title == "" || p.Code == "" || p.Detail == "" {
				t.Errorf("%s with %q: %d %s", to.path, body, w.Code, w.Body)
			}
		}
		if w.Body.Len() > 8*len(body)+16<<10 && to.path != "/v1/slots/reconcile" && to.path != "/v1/plan" {
			t.Errorf("%s: %d bytes are answered with %d", to.path, len(body), w.Body.Len())
		}
	})
}
