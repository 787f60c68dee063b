package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
)

var quiet = slog.New(slog.DiscardHandler)

func limiter(t testing.TB) *sluice.Limiter {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return sluice.New(store)
}

// inMemory is an upstream that needs no socket, so that time can be made up.
type inMemory func(*http.Request) *http.Response

func (f inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	w := f(r)
	w.Request = r
	if w.Body == nil {
		w.Body = io.NopCloser(strings.NewReader("body"))
	}
	return w, nil
}

func answer(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h}
}

func transport(t testing.TB, l *sluice.Limiter, limit string, base http.RoundTripper, change ...func(*httplimit.TransportConfig)) *httplimit.Transport {
	t.Helper()
	demand := sluice.Demand{Key: sluice.Key{Resource: "hubspot", Limit: "rps"}, Limit: sluice.MustParse(limit)}
	c := httplimit.TransportConfig{
		Limiter: l, Upstream: "hubspot", Base: base, Log: quiet,
		Demands: func(*http.Request) []sluice.Demand { return []sluice.Demand{demand} },
	}
	for _, f := range change {
		f(&c)
	}
	tr, err := httplimit.NewTransport(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func get(t testing.TB, rt http.RoundTripper, ctx context.Context) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	return rt.RoundTrip(r)
}

// H4's case as a transport: 50 at once on 10/s burst 20 are all sent, the
// last 3 s later.
func TestRequestsWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		rt := transport(t, limiter(t), "10/s burst 20", inMemory(func(*http.Request) *http.Response {
			sent.Add(1)
			return answer(200)
		}))
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := get(t, rt, t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := sent.Load(); n != 20 {
			t.Errorf("%d were sent at once", n)
		}
		wg.Wait()
		if took := time.Since(start); sent.Load() != 50 || took != 3*time.Second {
			t.Errorf("%d sent after %s", sent.Load(), took)
		}
	})
}

func TestPriorityAndDeadlineComeFromTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		rt := transport(t, limiter(t), "1/s", inMemory(func(r *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, r.Header.Get("Who"))
			return answer(200)
		}))
		send := func(who string, p sluice.Priority) {
			r, _ := http.NewRequestWithContext(httplimit.WithPriority(t.Context(), p), "GET", "http://api.example/", nil)
			r.Header.Set("Who", who)
			if _, err := rt.RoundTrip(r); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for _, who := range []string{"first", "second", "batch", "normal"} {
			p := sluice.Normal
			if who == "batch" {
				p = sluice.Batch
			}
			wg.Go(func() { send(who, p) })
			synctest.Wait()
		}
		wg.Go(func() { send("interactive", sluice.Interactive) })
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := &closeCounter{Reader: strings.NewReader("x")}
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://api.example/", body)
		start := time.Now()
		if _, err := rt.RoundTrip(r); err == nil {
			t.Error("it was sent though there was no time")
		}
		if body.closed != 1 {
			t.Errorf("the body was closed %d times", body.closed)
		}
		if time.Since(start) > time.Second {
			t.Error("it waited past its deadline")
		}
		wg.Wait()
		if got := strings.Join(order, " "); got != "first interactive second normal batch" {
			t.Errorf("order: %s", got)
		}
	})
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

// A 429 stops every process that shares the store, not only the one that got
// it; then they go on more slowly, and get faster again.
func TestARefusalPausesEveryProcessAndSpeedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := limiter(t)
		var refuse atomic.Bool
		var sent []time.Time
		var mu sync.Mutex
		up := inMemory(func(*http.Request) *http.Response {
			if refuse.Swap(false) {
				return answer(429, "Retry-After", "30")
			}
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Now())
			return answer(200)
		})
		one, two := transport(t, shared, "10/s burst 1", up), transport(t, shared, "10/s burst 1", up)
		if _, err := get(t, two, t.Context()); err != nil {
			t.Fatal(err)
		}
		refuse.Store(true)
		if r, err := get(t, one, t.Context()); err != nil || r.StatusCode != 429 {
			t.Fatal(r, err)
		}
		time.Sleep(time.Second) // longer than what a process remembers
		paused := time.Now()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := get(t, two, ctx)
		var refused *sluice.RefusedError
		if !errors.As(err, &refused) || time.Since(paused) != 0 {
			t.Errorf("within a pause that is longer than the deadline: %v after %s", err, time.Since(paused))
		}
		if _, err := get(t, two, t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(paused); took < 28*time.Second || took > 30*time.Second {
			t.Errorf("the other process went on after %s, want about 29 s", took)
		}
		count := func(during time.Duration) (n int) {
			for start := time.Now(); time.Since(start) < during; n++ {
				if _, err := get(t, one, t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return n
		}
		slow := count(10 * time.Second)
		time.Sleep(2 * time.Minute)
		faster := count(10 * time.Second)
		time.Sleep(5 * time.Minute)
		full := count(10 * time.Second)
		if slow < 50 || slow > 70 || faster <= slow+10 || full < 99 || full > 101 {
			t.Errorf("in 10 s each: %d after the pause, %d after 2 min, %d after 7 min", slow, faster, full)
		}
	})
}

func TestProcessesThatLearnTheSameDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := limiter(t)
		refuse := true
		up := inMemory(func(*http.Request) *http.Response {
			if refuse {
				time.Sleep(10 * time.Millisecond)
				return answer(429, "Retry-After", "10")
			}
			return answer(200)
		})
		var wg sync.WaitGroup
		for range 8 {
			rt := transport(t, shared, "100/s", up)
			wg.Go(func() { get(t, rt, t.Context()) })
		}
		wg.Wait()
		refuse = false
		start := time.Now()
		if _, err := get(t, transport(t, shared, "100/s", up), t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("8 refusals of 10 s made a pause of %s", took)
		}
	})
}

func TestTheUpstreamsHeadersAreHeeded(t *testing.T) {
	for name, test := range map[string]struct {
		header []string
		min    time.Duration // until the next 10 requests are through, at 10/s burst 1
		max    time.Duration
	}{
		"plenty left":       {[]string{"RateLimit", `"d";r=900;t=60`, "RateLimit-Policy", `"d";q=1000;w=60`}, 900 * time.Millisecond, 1100 * time.Millisecond},
		"nothing left":      {[]string{"RateLimit", `"d";r=0;t=20`}, 20 * time.Second, 23 * time.Second},
		"little left":       {[]string{"RateLimit", `"d";r=100;t=100`, "RateLimit-Policy", `"d";q=1000;w=60`}, 6 * time.Second, 12 * time.Second},
		"older":             {[]string{"RateLimit-Limit", "100", "RateLimit-Remaining", "0", "RateLimit-Reset", "5"}, 5 * time.Second, 8 * time.Second},
		"X, a date":         {[]string{"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684805", "Date", "Sat, 01 Jan 2000 00:00:00 GMT"}, 5 * time.Second, 8 * time.Second},
		"garbage":           {[]string{"RateLimit", `"d";r=;t`, "X-RateLimit-Remaining", "-5", "X-RateLimit-Reset", "soon"}, 900 * time.Millisecond, 1100 * time.Millisecond},
		"more than allowed": {[]string{"RateLimit", `"d";r=0;t=86400`}, 15 * time.Minute, 16 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				rt := transport(t, limiter(t), "10/s burst 1", inMemory(func(*http.Request) *http.Response {
					if first {
						first = false
						return answer(200, test.header...)
					}
					return answer(200)
				}))
				if _, err := get(t, rt, t.Context()); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				for range 10 {
					if _, err := get(t, rt, t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(start); took < test.min || took > test.max {
					t.Errorf("10 requests took %s, want %s to %s", took, test.min, test.max)
				}
			})
		})
	}
}

func TestOnlyWhatIsSafeIsSentAgain(t *testing.T) {
	for _, test := range []struct {
		method, key string
		status      int
		header      []string
		stream      bool // the body cannot be had again
		repeatSafe  bool
		want        int
	}{
		{"GET", "", 429, nil, false, false, 3},
		{"GET", "", 503, []string{"Retry-After", "1"}, false, false, 3},
		{"PUT", "", 429, []string{"Retry-After", "1"}, false, false, 3},
		{"DELETE", "", 503, []string{"Retry-After", "1"}, false, false, 1},
		{"DELETE", "", 503, []string{"Retry-After", "1"}, false, true, 1},
		{"POST", "k1", 503, []string{"Retry-After", "1"}, false, false, 1},
		{"POST", "k1", 503, []string{"Retry-After", "1"}, false, true, 3},
		{"GET", "", 503, nil, false, false, 1},
		{"GET", "", 500, nil, false, false, 1},
		{"POST", "", 429, nil, false, false, 1},
		{"PATCH", "", 429, nil, false, false, 1},
		{"POST", "k1", 429, nil, false, false, 3},
		{"PUT", "", 429, nil, true, false, 1},
	} {
		t.Run(fmt.Sprintf("%s %d %s %v", test.method, test.status, test.key, test.repeatSafe), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				rt := transport(t, limiter(t), "10/s", inMemory(func(*http.Request) *http.Response {
					sent++
					return answer(test.status, test.header...)
				}), func(c *httplimit.TransportConfig) { c.Retries, c.RepeatSafe = 2, test.repeatSafe })
				var body io.Reader = strings.NewReader("body")
				if test.stream {
					body = io.MultiReader(body)
				}
				r, _ := http.NewRequestWithContext(t.Context(), test.method, "http://api.example/", body)
				if test.key != "" {
					r.Header.Set("Idempotency-Key", test.key)
				}
				response, err := rt.RoundTrip(r)
				if err != nil || response.StatusCode != test.status || sent != test.want {
					t.Errorf("sent %d times, want %d: %v %v", sent, test.want, response, err)
				}
				if b, _ := io.ReadAll(response.Body); string(b) != "body" {
					t.Errorf("the refusal's body: %q", b)
				}
			})
		})
	}
}

func TestARetryWithoutTimeGivesTheRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport(t, limiter(t), "10/s", inMemory(func(*http.Request) *http.Response {
			return answer(429, "Retry-After", "60")
		}), func(c *httplimit.TransportConfig) { c.Retries = 2 })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		response, err := get(t, rt, ctx)
		if err != nil || response.StatusCode != 429 || time.Since(start) != 0 {
			t.Fatalf("%v %v after %s", response, err, time.Since(start))
		}
		if b, _ := io.ReadAll(response.Body); string(b) != "body" {
			t.Errorf("body: %q", b)
		}
	})
}

func TestOverARealSocket(t *testing.T) {
	var got atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not now", http.StatusTooManyRequests)
			return
		}
		io.Copy(w, r.Body)
	}))
	t.Cleanup(upstream.Close)
	client := &http.Client{Transport: transport(t, limiter(t), "100/s", &http.Transport{DialContext: (&net.Dialer{}).DialContext},
		func(c *httplimit.TransportConfig) { c.Retries = 1 })}
	r, err := http.NewRequestWithContext(t.Context(), "PUT", upstream.URL, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil || string(b) != "hello" || got.Load() != 2 || time.Since(start) < time.Second {
		t.Errorf("%q, %v, %d requests, %s", b, err, got.Load(), time.Since(start))
	}
}

func TestTransportConfig(t *testing.T) {
	l := limiter(t)
	demands := func(*http.Request) []sluice.Demand { return nil }
	for field, c := range map[string]httplimit.TransportConfig{
		"transport.limiter":   {Upstream: "x", Demands: demands},
		"transport.upstream":  {Limiter: l, Demands: demands},
		"transport.demands":   {Limiter: l, Upstream: "x"},
		"transport.retries":   {Limiter: l, Upstream: "x", Demands: demands, Retries: -1},
		"transport.max_pause": {Limiter: l, Upstream: "x", Demands: demands, MaxPause: -1},
		"transport.recovery":  {Limiter: l, Upstream: "x", Demands: demands, Recovery: time.Millisecond},
	} {
		_, err := httplimit.NewTransport(c)
		var fe *sluice.FieldError
		if !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A request that waits is judged by the limits of the moment.
func TestTransportHearsOfOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rule atomic.Value
		rule.Store("1/h")
		tr := transport(t, limiter(t), "1/h", inMemory(func(*http.Request) *http.Response { return answer(200) }), func(c *httplimit.TransportConfig) {
			c.Demands = func(*http.Request) []sluice.Demand {
				return []sluice.Demand{{Key: sluice.Key{Resource: "hubspot", Limit: "rps"}, Limit: sluice.MustParse(rule.Load().(string))}}
			}
		})
		if _, err := get(t, tr, t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { rule.Store("100/s") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := get(t, tr, ctx); err != nil {
			t.Error(err)
		}
	})
}
