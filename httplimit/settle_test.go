package httplimit_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

func remaining(t testing.TB, url, name string, header ...string) int64 {
	t.Helper()
	a := ask(t, url, "GET", "/complete", header...)
	list, err := httpsfv.UnmarshalList(a.Header.Values("RateLimit"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if i := m.(httpsfv.Item); i.Value == name {
			r, _ := i.Params.Get("r")
			return r.(int64)
		}
	}
	t.Fatalf("no %s in %v", name, a.Header)
	return 0
}

func TestTheRealCostIsSettledAfterTheResponse(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"by SetCost": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "streaming…")
			if !httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(40)) {
				panic("the cost was not taken")
			}
		},
		"by a header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "40")
			io.WriteString(w, "done")
		},
		"by a header without body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "40")
			w.WriteHeader(204)
		},
		"by a header and nothing else": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "40")
		},
		"by a trailer": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "streaming…")
			w.Header().Set(http.TrailerPrefix+"X-Tokens-Used", "40")
		},
		"the last word counts": func(w http.ResponseWriter, r *http.Request) {
			httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(70))
			httplimit.SetCost(r.Context(), "tpm", sluice.Tokens(40))
		},
		"before it was flushed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "40")
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gate(t, sample)
			s := serve(t, g.Wrap(handle))
			a := ask(t, s.URL, "GET", "/complete", "X-API-Key", "pro")
			if a.StatusCode >= 300 || a.Header.Get("X-Tokens-Used") != "" || len(a.Trailer) != 0 {
				t.Errorf("%d %v %v", a.StatusCode, a.Header, a.Trailer)
			}
			// 100 - 40 settled - 10 of this one, and perhaps one refilled.
			if r := remaining(t, s.URL, "tokens-tpm", "X-API-Key", "pro"); r < 50 || r > 52 {
				t.Errorf("%d remain, want 50", r)
			}
		})
	}
}

func TestACostThatMakesNoSenseIsIgnored(t *testing.T) {
	for _, value := range []string{"", "-5", "many", "1e9999", "0x10", "null"} {
		s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Tokens-Used", value)
			if httplimit.SetCost(r.Context(), "tpm", sluice.Thousandths(-1)) {
				t.Error("a negative cost was taken")
			}
		})))
		ask(t, s.URL, "GET", "/complete", "X-API-Key", "pro")
		if r := remaining(t, s.URL, "tokens-tpm", "X-API-Key", "pro"); r < 80 || r > 82 {
			t.Errorf("%q: %d remain, want 80", value, r)
		}
	}
	if httplimit.SetCost(t.Context(), "tpm", sluice.Tokens(1)) {
		t.Error("outside of a request")
	}
}

func TestAPanicGivesTheTokensBack(t *testing.T) {
	for path, consumed := range map[string]bool{"/a": false, "/complete": false, "/abort": true} {
		t.Run(path, func(t *testing.T) {
			quietly := httptest.NewUnstartedServer(gate(t, sample).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Panic") != "" {
					if path == "/abort" {
						panic(http.ErrAbortHandler)
					}
					panic("boom")
				}
			})))
			quietly.Config.ErrorLog = log.New(io.Discard, "", 0)
			quietly.Start()
			t.Cleanup(quietly.Close)
			for range 3 {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", quietly.URL+path, nil)
				r.Header.Set("X-API-Key", "pro")
				r.Header.Set("X-Panic", "yes")
				if response, err := http.DefaultClient.Do(r); err == nil {
					response.Body.Close()
					t.Error("the panic was swallowed")
				}
			}
			limits := ask(t, quietly.URL, "GET", "/a", "X-API-Key", "pro").Header.Get("RateLimit")
			want := `"global";r=999`
			if consumed {
				want = `"global";r=996`
			}
			if !strings.Contains(limits, want) {
				t.Errorf("got %s, want %s", limits, want)
			}
		})
	}
}

func TestConcurrencyIsFreedWhenTheResponseIsDone(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Stay") != "" {
			enter <- struct{}{}
			<-leave
		}
	})))
	done := make(chan int)
	go func() { done <- ask(t, s.URL, "GET", "/slow", "X-API-Key", "pro", "X-Stay", "yes").StatusCode }()
	<-enter
	a := ask(t, s.URL, "GET", "/slow", "X-API-Key", "pro")
	if a.StatusCode != 429 || !slices.Equal(a.problem.Violated, []string{"running"}) || !strings.Contains(a.Header.Get("RateLimit-Policy"), `"running";q=1;qu="concurrent-requests"`) {
		t.Errorf("%d %s %v", a.StatusCode, a.body, a.Header)
	}
	leave <- struct{}{}
	if status := <-done; status != 200 {
		t.Errorf("the first: %d", status)
	}
	if a := ask(t, s.URL, "GET", "/slow", "X-API-Key", "pro"); a.StatusCode != 200 {
		t.Errorf("after it: %d %s", a.StatusCode, a.body)
	}
}
