package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

// ownLimit is the limit of the servers under test. It gives back next to
// nothing while a test runs.
const ownLimit = "1/week burst 3"

// epoch is where the clock of the servers under test stands still.
var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// start runs a server on a free port until the test ends and answers its URL.
// stop makes it shut down, and waits until it has.
func start(t testing.TB, options ...sluice.Option) (url string, stop func() error) {
	t.Helper()
	store, err := memory.Open(memory.Config{Clock: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	handler, err := server.Handler(server.Config{
		Limiter: sluice.New(store, options...),
		Limits:  map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)},
		Access:  server.Access{Open: true},
		Log:     log,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		result = server.Serve(ctx, listener, handler, log)
	}()
	stop = func() error {
		http.DefaultClient.CloseIdleConnections() // or the server waits for them a while
		cancel()
		<-ended
		return result
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String(), stop
}

type reply struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

func (r reply) result(t *testing.T, i int) map[string]any {
	t.Helper()
	results, _ := r.json["results"].([]any)
	if i >= len(results) {
		t.Fatalf("no result %d in %s", i, r.body)
	}
	return results[i].(map[string]any)
}

func send(t testing.TB, method, url, body string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{status: response.StatusCode, header: response.Header, body: string(content)}
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		if err := json.NewDecoder(bytes.NewReader(content)).Decode(&r.json); err != nil {
			t.Fatalf("%s: %v", content, err)
		}
	}
	return r
}

func TestHealth(t *testing.T) {
	url, _ := start(t)
	r := send(t, "GET", url+"/healthz", "")
	if r.status != 200 || r.body != "ok\n" {
		t.Errorf("got %d %q", r.status, r.body)
	}
}

func TestTakeUntilRefused(t *testing.T) {
	url, _ := start(t)
	for i, remaining := range []float64{2, 1, 0} {
		r := send(t, "POST", url+"/v1/take", `{"entity":"alice","resource":"api"}`)
		if r.status != 200 || r.json["allowed"] != true || r.json["limit"] != "own" ||
			r.json["remaining"] != remaining || r.json["retryAfter"] != 0.0 || r.json["never"] != false {
			t.Errorf("take %d: got %d %s", i, r.status, r.body)
		}
		if r.header.Get("Retry-After") != "" {
			t.Errorf("take %d: allowed, but Retry-After is %s", i, r.header.Get("Retry-After"))
		}
	}
	r := send(t, "POST", url+"/v1/take", `{"entity":"alice","resource":"api"}`)
	if r.status != 429 || r.json["allowed"] != false || r.json["limit"] != "own" || r.json["remaining"] != 0.0 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	const week = 7 * 24 * 3600
	if r.header.Get("Retry-After") != "604800" || r.json["retryAfter"] != week*1.0 {
		t.Errorf("Retry-After is %s in %s", r.header.Get("Retry-After"), r.body)
	}
	got := r.result(t, 0)
	if got["limit"] != "own" || got["rule"] != "1/7d burst 3" || got["level"] != "default" || got["fits"] != false || got["resetAfter"] != 3*week*1.0 {
		t.Errorf("result is %v", got)
	}
	// Others have buckets of their own.
	for _, body := range []string{`{"entity":"bob","resource":"api"}`, `{"entity":"alice","resource":"mail"}`, `{"entity":"alice"}`} {
		if r := send(t, "POST", url+"/v1/take", body); r.status != 200 || r.json["remaining"] != 2.0 {
			t.Errorf("%s: got %d %s", body, r.status, r.body)
		}
	}
}

func TestTakeWithLimitsOfItsOwn(t *testing.T) {
	url, _ := start(t)
	const body = `{"entity":"alice","cost":1.5,"limits":{"b":"1/week burst 2","a":"1/week burst 100"}}`
	r := send(t, "POST", url+"/v1/take", body)
	if r.status != 200 || r.json["limit"] != "b" || r.json["remaining"] != 0.5 {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if a := r.result(t, 0); a["limit"] != "a" || a["level"] != "call" || a["remaining"] != 98.5 {
		t.Errorf("results are not in order of their names: %s", r.body)
	}
	r = send(t, "POST", url+"/v1/take", body)
	if a := r.result(t, 0); r.status != 429 || r.json["limit"] != "b" || a["fits"] != true || a["remaining"] != 98.5 {
		t.Errorf("a refusal by b must leave a alone; got %d %s", r.status, r.body)
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	url, _ := start(t)
	for _, step := range []struct {
		limit   string
		retry   float64
		seconds string
	}{
		{"1/ms", 0.001, "1"},
		{"1/1s", 1, "1"},
		{"1/1s1ms", 1.001, "2"},
		{"1/500us", 0.001, "1"},
	} {
		body := `{"entity":"` + step.limit + `","limits":{"l":"` + step.limit + `"}}`
		send(t, "POST", url+"/v1/take", body)
		r := send(t, "POST", url+"/v1/take", body)
		if r.status != 429 || r.json["retryAfter"] != step.retry || r.header.Get("Retry-After") != step.seconds {
			t.Errorf("%s: got %d, Retry-After %s, %s", step.limit, r.status, r.header.Get("Retry-After"), r.body)
		}
	}
}

func TestCostAboveTheBurstIsNever(t *testing.T) {
	url, _ := start(t)
	r := send(t, "POST", url+"/v1/take", `{"entity":"alice","cost":4}`)
	if r.status != 429 || r.json["never"] != true || r.json["retryAfter"] != nil || r.header.Get("Retry-After") != "" {
		t.Errorf("got %d, Retry-After %q, %s", r.status, r.header.Get("Retry-After"), r.body)
	}
	if r := send(t, "POST", url+"/v1/take", `{"entity":"alice","cost":3}`); r.status != 200 {
		t.Errorf("the refusal consumed something: %s", r.body)
	}
}

func TestPeekConsumesNothing(t *testing.T) {
	url, _ := start(t)
	for range 10 {
		if r := send(t, "POST", url+"/v1/take", `{"entity":"alice","cost":3,"peek":true}`); r.status != 200 {
			t.Fatalf("got %d %s", r.status, r.body)
		}
	}
	if r := send(t, "POST", url+"/v1/take", `{"entity":"alice","peek":true,"limits":{"c":"5 concurrent"}}`); r.status != 400 { // as a take
		t.Errorf("got %d %s", r.status, r.body)
	}
	if r := send(t, "POST", url+"/v1/take", `{"entity":"alice","cost":3}`); r.status != 200 {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestBadRequests(t *testing.T) {
	url, _ := start(t)
	long := strings.Repeat("x", 256)
	many := `{"entity":"alice","limits":{"x":"1/s"`
	for i := range 64 {
		many += `,"` + strings.Repeat("y", i+1) + `":"1/s"`
	}
	many += `}}`
	for _, c := range []struct {
		body   string
		status int
		field  string
		detail string
	}{
		{``, 400, "body", "must be a JSON object"},
		{`{"entity":`, 400, "body", "must be a JSON object"},
		{`{entity}`, 400, "body", "is not JSON"},
		{`[1]`, 400, "body", "must be an object"},
		{`null`, 400, "entity", "must name who"},
		{`{}`, 400, "entity", "must name who"},
		{`{"entity":""}`, 400, "entity", "must name who"},
		{`{"entity":7}`, 400, "entity", "must be a string"},
		{`{"entity":"` + long + `"}`, 400, "entity", "255 bytes"},
		{`{"entity":"alice","resource":"` + long + `"}`, 400, "resource", "255 bytes"},
		{`{"entity":"alice"}{}`, 400, "body", "one JSON object"},
		{`{"entity":"alice"} x`, 400, "body", "one JSON object"},
		{`{"entity":"alice","user":1}`, 400, "body", `unknown field "user"`},
		{`{"entity":"alice","":1}`, 400, "body", `unknown field ""`},
		{`{"entity":"alice","cost":0}`, 400, "cost", "above 0"},
		{`{"entity":"alice","cost":-0.0}`, 400, "cost", "above 0"},
		{`{"entity":"alice","cost":-1}`, 400, "cost", "above 0"},
		{`{"entity":"alice","cost":0.0001}`, 400, "cost", "three decimals"},
		{`{"entity":"alice","cost":1e3}`, 400, "cost", "not an amount"},
		{`{"entity":"alice","cost":"1"}`, 400, "cost", "not an amount"},
		{`{"entity":"alice","cost":[]}`, 400, "cost", "not an amount"},
		{`{"entity":"alice","cost":1000000000001}`, 400, "cost", "above 1000000000000"},
		{`{"entity":"alice","cost":99999999999999999999999}`, 400, "cost", "above 1000000000000"},
		{`{"entity":"alice","peek":"yes"}`, 400, "peek", "true or false"},
		{`{"entity":"alice","wait":5}`, 400, "wait", `must be a string with a unit: "5s" for seconds`},
		{`{"entity":"alice","wait":"5"}`, 400, "wait", `must be a string with a unit: "5s" for seconds`},
		{`{"entity":"alice","wait":"soon"}`, 400, "wait", `such as "1.5s"`},
		{`{"entity":"alice","limits":{}}`, 400, "limits", "1 to 64"},
		{`{"entity":"alice","limits":[]}`, 400, "limits", "must be an object"},
		{many, 400, "limits", "1 to 64"},
		{`{"entity":"alice","limits":{"rpm":"fast"}}`, 400, "limits.rpm", "want for example"},
		{`{"entity":"alice","limits":{"rpm":"0/s"}}`, 400, "limits.rpm", "above 0"},
		{`{"entity":"alice","limits":{"":"1/s"}}`, 400, "limits.", "needs a name"},
		{`{"entity":"alice","limits":{"rpm":"5 concurrent"}}`, 400, "limits.rpm", "needs a lease"},
		{`{"entity":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "body", "65536 bytes"},
		{`{"entity":"alice"}` + strings.Repeat(" ", 64<<10), 413, "body", "65536 bytes"},
	} {
		r := send(t, "POST", url+"/v1/take", c.body)
		detail, _ := r.json["detail"].(string)
		if r.status != c.status || r.json["field"] != c.field || !strings.Contains(detail, c.detail) {
			t.Errorf("%.60s: got %d %s", c.body, r.status, r.body)
		}
		if r.header.Get("Content-Type") != "application/problem+json" || r.json["status"] != float64(c.status) {
			t.Errorf("%.60s: not a problem: %s %s", c.body, r.header.Get("Content-Type"), r.body)
		}
	}
	// None of them consumed anything.
	if r := send(t, "POST", url+"/v1/take", `{"entity":"alice","cost":3}`); r.status != 200 {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestWrongPathOrMethod(t *testing.T) {
	url, _ := start(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/", 405, "GET, HEAD"},
		{"POST", "/v1/tokens", 404, ""},
		{"GET", "/v1/take", 405, "POST"},
		{"DELETE", "/v1/take", 405, "POST"},
		{"POST", "/healthz", 405, "GET, HEAD"},
	} {
		r := send(t, c.method, url+c.path, "")
		if r.status != c.status || r.header.Get("Allow") != c.allow || r.json["status"] != float64(c.status) {
			t.Errorf("%s %s: got %d, Allow %q, %s", c.method, c.path, r.status, r.header.Get("Allow"), r.body)
		}
	}
}

func TestHandlerChecksItsConfig(t *testing.T) {
	limiter := sluice.New(nil)
	for name, config := range map[string]server.Config{
		"server.limiter": {Limits: map[string]sluice.Limit{"own": sluice.MustParse(ownLimit)}},
		"server.limits":  {Limiter: limiter},
		"limit.amount":   {Limiter: limiter, Limits: map[string]sluice.Limit{"own": {}}},
	} {
		if _, err := server.Handler(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error about %s, got %v", name, err)
		}
	}
}
