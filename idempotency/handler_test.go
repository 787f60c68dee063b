package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func TestARepeatGetsTheStoredResponse(t *testing.T) {
	var o orders
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), &o)
	first := do(h, post(`"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "two apples"))
	wantAnswer(t, first, 201, "# two apples", false)
	// Without quotes it is the same key.
	again := do(h, post("8e03978e-40d5-43e8-bc93-6894a57f9324", "two apples"))
	wantAnswer(t, again, 201, "# two apples", true)
	for _, name := range []string{"Content-Type", "Location"} {
		if got, want := again.Header().Get(name), first.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	o.wantRuns(t, 1)
	wantAnswer(t, do(h, post("another", "two apples")), 201, "## two apples", false)
}

func TestKeysAreChecked(t *testing.T) {
	var o orders
	k := memoryKeeper(t)
	optional := k.Handler(always(prepared(t, nil)), &o)
	required := k.Handler(always(prepared(t, func(r *idempotency.Route) { r.Required = true })), &o)

	wantAnswer(t, do(optional, post("", "x")), 201, "# x", false)
	w := do(required, post("", "x"))
	p := wantCode(t, w, 400, idempotency.CodeMissing)
	if want := fmt.Sprintf("<%s>; rel=\"describedby\"; type=\"text/html\"", p.Type); w.Header().Get("Link") != want || !strings.HasSuffix(p.Type, "#key-missing") {
		t.Errorf("link %q, want %q", w.Header().Get("Link"), want)
	}
	for _, key := range []string{
		" ", `""`, `"`, `"a`, `"a" "b"`, `"ä"`, "a b", "a,b", "a;b", "a\x01", "ä", ":YWJj:", `"a", "b"`,
		strings.Repeat("x", 256), `"` + strings.Repeat("x", 256) + `"`, `"` + strings.Repeat("x", 5000) + `"`,
	} {
		if key == ":YWJj:" {
			continue // binary in structured fields, but also a fine bare key
		}
		r := post("", "x")
		r.Header["Idempotency-Key"] = []string{key}
		wantCode(t, do(optional, r), 400, idempotency.CodeInvalid)
	}
	r := post("a", "x")
	r.Header.Add("Idempotency-Key", "b")
	wantCode(t, do(optional, r), 400, idempotency.CodeInvalid)
	o.wantRuns(t, 1)

	for _, key := range []string{strings.Repeat("x", 255), `"` + strings.Repeat("x", 255) + `"`, `"a b"; p=1`, `"\"\\"`, "a=b/c+d:e@f"} {
		if w := do(optional, post(key, "x")); w.Code != 201 {
			t.Errorf("key %.40s: %d %s", key, w.Code, w.Body)
		}
	}
}

func TestTheSameKeyForSomethingElseIsRefused(t *testing.T) {
	var o orders
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), &o)
	text := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
	do(h, post("k", "one", text))
	for name, r := range map[string]*http.Request{
		"body":         post("k", "two", text),
		"longer":       post("k", "one ", text),
		"empty":        post("k", "", text),
		"content type": post("k", "one", func(r *http.Request) { r.Header.Set("Content-Type", "text/html") }),
		"query":        post("k", "one", text, func(r *http.Request) { r.URL.RawQuery = "n=2" }),
		// The route is the same for all orders, the path is not.
		"path": post("k", "one", text, func(r *http.Request) { r.URL.Path = "/orders/2" }),
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, do(h, r), 422, idempotency.CodeReused) })
	}
	o.wantRuns(t, 1)
	wantAnswer(t, do(h, post("k", "one", text)), 201, "# one", true)
	// Another method is another operation.
	wantAnswer(t, do(h, post("k", "one", text, func(r *http.Request) { r.Method = http.MethodPut })), 201, "## one", false)
}

func TestTwoTenantsMayHaveTheSameKey(t *testing.T) {
	var o orders
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), &o)
	as := func(tenant string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Tenant", tenant) }
	}
	wantAnswer(t, do(h, post("k", "a", as("acme"))), 201, "# a", false)
	wantAnswer(t, do(h, post("k", "b", as("bond"))), 201, "## b", false)
	wantAnswer(t, do(h, post("k", "a", as("acme"))), 201, "# a", true)
	wantAnswer(t, do(h, post("k", "b", as("bond"))), 201, "## b", true)
}

func TestReadsAndOtherRoutesAreNotTouched(t *testing.T) {
	k := memoryKeeper(t)
	var seen http.ResponseWriter
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seen = w })
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		h := k.Handler(func(*http.Request) *idempotency.Route { t.Errorf("asked about %s", method); return nil }, inner)
		r := post("k", "")
		r.Method = method
		if w := do(h, r); seen != http.ResponseWriter(w) {
			t.Errorf("%s: something stands between handler and client", method)
		}
	}
	w := do(k.Handler(always(nil), inner), post("bad key", ""))
	if seen != http.ResponseWriter(w) {
		t.Error("something stands between handler and client")
	}
}

func TestEmptyBodies(t *testing.T) {
	var o orders
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), &o)
	deletes := func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodDelete, http.NoBody, 0 }
	wantAnswer(t, do(h, post("k", "", deletes)), 201, "# ", false)
	wantAnswer(t, do(h, post("k", "", deletes)), 201, "# ", true)
	missing := func(r *http.Request) { r.Method, r.Body = http.MethodDelete, nil }
	wantAnswer(t, do(h, post("k", "", missing)), 201, "# ", true)
	wantCode(t, do(h, post("k", "x", func(r *http.Request) { r.Method = http.MethodDelete })), 422, idempotency.CodeReused)
}

func TestAnExpiredKeyIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o orders
		h := memoryKeeper(t).Handler(always(prepared(t, nil)), &o)
		wantAnswer(t, do(h, post("k", "one")), 201, "# one", false)
		time.Sleep(24*time.Hour - time.Nanosecond)
		wantAnswer(t, do(h, post("k", "one")), 201, "# one", true)
		time.Sleep(time.Nanosecond)
		wantAnswer(t, do(h, post("k", "two")), 201, "## two", false)
	})
}

func TestAnUnpreparedRouteIsRefused(t *testing.T) {
	var o orders
	h := memoryKeeper(t).Handler(always(&idempotency.Route{Name: "x"}), &o)
	wantCode(t, do(h, post("k", "x")), 500, idempotency.CodeInternal)
	o.wantRuns(t, 0)
}

func TestARequestWhoseBodyBreaksOffClaimsNothing(t *testing.T) {
	k := memoryKeeper(t)
	var o orders
	h := k.Handler(always(prepared(t, nil)), &o)
	wantCode(t, do(h, post("k", "whole", func(r *http.Request) { r.Body = http.MaxBytesReader(nil, r.Body, 3) })), 413, idempotency.CodeBody)
	o.wantRuns(t, 0)
	if _, _, err := k.Lookup(context.Background(), scope("k")); err == nil {
		t.Error("there is a record")
	}
}

func TestRoutesAreChecked(t *testing.T) {
	tenant := func(*http.Request) string { return "" }
	for name, r := range map[string]idempotency.Route{
		"route.name":       {Tenant: tenant},
		"route.tenant":     {Name: "x"},
		"route.ttl":        {Name: "x", Tenant: tenant, TTL: time.Millisecond},
		"route.life":       {Name: "x", Tenant: tenant, Life: 2 * time.Hour},
		"route.max_run":    {Name: "x", Tenant: tenant, MaxRun: 25 * time.Hour},
		"route.max_body":   {Name: "x", Tenant: tenant, MaxBody: -1},
		"route.max_buffer": {Name: "x", Tenant: tenant, MaxBuffer: 1 << 40},
		"route.statuses":   {Name: "x", Tenant: tenant, Statuses: []string{"429"}},
		"route.headers":    {Name: "x", Tenant: tenant, Headers: []string{"set-cookie"}},
	} {
		if err := r.Prepare(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, header := range []string{"Date", "Connection", "RateLimit", "ratelimit-policy", "X-RateLimit-Limit", "Authorization", "WWW-Authenticate", "a b"} {
		r := idempotency.Route{Name: "x", Tenant: tenant, Headers: []string{header}}
		if r.Prepare() == nil {
			t.Errorf("header %q is accepted", header)
		}
	}
	for _, status := range []string{"1xx", "6xx", "99", "600", "503", "2xxx", ""} {
		r := idempotency.Route{Name: "x", Tenant: tenant, Statuses: []string{status}}
		if r.Prepare() == nil {
			t.Errorf("status %q is accepted", status)
		}
	}
}

func TestWhatIsStored(t *testing.T) {
	for _, test := range []struct {
		statuses []string
		status   int
		want     bool
	}{
		{nil, 200, true}, {nil, 204, true}, {nil, 302, false}, {nil, 400, false}, {nil, 404, false}, {nil, 500, false},
		{[]string{"2xx", "4xx", "5xx"}, 404, true}, {[]string{"2xx", "4xx", "5xx"}, 500, true},
		{[]string{"404"}, 404, true}, {[]string{"404"}, 200, false},
		{[]string{"4xx", "5xx"}, 401, false}, {[]string{"4xx", "5xx"}, 403, false}, {[]string{"4xx", "5xx"}, 408, false},
		{[]string{"4xx", "5xx"}, 409, false}, {[]string{"4xx", "5xx"}, 425, false}, {[]string{"4xx", "5xx"}, 429, false},
		{[]string{"4xx", "5xx"}, 503, false},
	} {
		t.Run(fmt.Sprint(test.statuses, test.status), func(t *testing.T) {
			runs := 0
			h := memoryKeeper(t).Handler(always(prepared(t, func(r *idempotency.Route) { r.Statuses = test.statuses })),
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					runs++
					w.WriteHeader(test.status)
				}))
			do(h, post("k", "x"))
			w := do(h, post("k", "x"))
			if w.Code != test.status || (runs == 1) != test.want {
				t.Errorf("status %d after %d runs, stored should be %t", w.Code, runs, test.want)
			}
		})
	}
}

func TestHeadersOfOneCallerAreNotReplayed(t *testing.T) {
	never := []string{
		"Set-Cookie", "Date", "Connection", "Keep-Alive", "RateLimit", "RateLimit-Policy", "RateLimit-Remaining", "X-RateLimit-Limit",
		"Authorization", "WWW-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Retry-After", "X-Own",
	}
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range never {
			w.Header().Set(name, "secret")
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Add("Link", "<a>")
		w.Header().Add("Link", "<b>")
		w.Header().Set("Content-Disposition", "attachment; filename=\xe4")
		w.Write([]byte("body"))
	}))
	first := do(h, post("k", "x"))
	if first.Header().Get("Set-Cookie") != "secret" {
		t.Error("the first caller does not get its cookie")
	}
	again := do(h, post("k", "x"))
	for _, name := range never {
		if v := again.Header().Get(name); v != "" {
			t.Errorf("%s: %q is replayed", name, v)
		}
	}
	if got := fmt.Sprintf("%q", []any{again.Header()["Etag"], again.Header()["Link"], again.Header()["Content-Disposition"]}); got !=
		`[["\"1\""] ["<a>" "<b>"] ["attachment; filename=\xe4"]]` {
		t.Errorf("headers %s", got)
	}

	own := memoryKeeper(t).Handler(always(prepared(t, func(r *idempotency.Route) { r.Headers = []string{"x-own"} })),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Own", "yes")
			w.Header().Set("Etag", "no")
		}))
	do(own, post("k", "x"))
	if w := do(own, post("k", "x")); w.Header().Get("X-Own") != "yes" || w.Header().Get("Etag") != "" {
		t.Errorf("headers %v", w.Header())
	}
}

func TestALargeResponseIsNotKeptAndTheWriteNotRepeated(t *testing.T) {
	runs := 0
	h := memoryKeeper(t).Handler(always(prepared(t, func(r *idempotency.Route) { r.MaxBody = 10 })),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			for range 3 {
				w.Write([]byte("12345"))
			}
		}))
	if w := do(h, post("k", "x")); w.Body.String() != "123451234512345" {
		t.Errorf("the client gets %q", w.Body)
	}
	w := do(h, post("k", "x"))
	p := wantCode(t, w, 409, idempotency.CodeNotKept)
	if !strings.Contains(p.Detail, "200") || !strings.Contains(p.Detail, "too large") || w.Header().Get("Idempotent-Replay") != "true" {
		t.Errorf("detail %q", p.Detail)
	}
	wantCode(t, do(h, post("k", "y")), 422, idempotency.CodeReused) // this path looks at the fingerprint as well
	if runs != 1 {
		t.Errorf("the write ran %d times", runs)
	}
}

func TestHeadersThatAreTooLargeAreNotKept(t *testing.T) {
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", strings.Repeat("x", idempotency.MaxHead))
	}))
	do(h, post("k", "x"))
	wantCode(t, do(h, post("k", "x")), 409, idempotency.CodeNotKept)
}
