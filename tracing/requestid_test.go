package tracing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/tracing"
)

func TestRequestIDs(t *testing.T) {
	var inside, passedOn string
	h := tracing.RequestIDs(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside, passedOn = tracing.RequestID(r.Context()), r.Header.Get("X-Request-Id")
	}))
	for _, c := range []struct {
		brought []string
		kept    bool
	}{
		{[]string{"abc-123_X.y:z/+="}, true},
		{[]string{strings.Repeat("x", 128)}, true},
		{[]string{strings.Repeat("x", 129)}, false},
		{[]string{"a b"}, false},
		{[]string{"a\nlevel=ERROR"}, false},
		{[]string{`a"b`}, false},
		{[]string{"ä"}, false},
		{[]string{""}, false},
		{[]string{"a", "b"}, false},
		{nil, false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["X-Request-Id"] = c.brought
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		if kept := len(c.brought) == 1 && got == c.brought[0]; kept != c.kept {
			t.Errorf("%q becomes %q", c.brought, got)
		}
		if len(got) < 20 && !c.kept || inside != got || passedOn != got {
			t.Errorf("%q: the response says %q, the context %q, the request %q", c.brought, got, inside, passedOn)
		}
	}
}

// TestLogLinesNameTheirRequest: the id and the trace stand on every line that
// is logged for a request, and on no other.
func TestLogLinesNameTheirRequest(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	var out bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewJSONHandler(&out, nil))).With("node", "a")
	h := tracing.RequestIDs(tr.Handler(tracing.AccessLog(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.InfoContext(r.Context(), "inside")
		r.URL.Path = "/elsewhere"
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	}))))
	server := httptest.NewServer(h)
	request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/pot?token=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", "id-1")
	request.Header.Set("Traceparent", sampled)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	server.Close() // waits until the request is logged
	log.Info("outside")
	r.got(t, tr)
	var lines []map[string]any
	for line := range bytes.Lines(out.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	if len(lines) != 3 || strings.Contains(out.String(), "secret") {
		t.Fatalf("the log is\n%s", out.String())
	}
	for i, line := range lines {
		if line["node"] != "a" {
			t.Errorf("%v lacks what the log was given", line)
		}
		if i < 2 && (line["request_id"] != "id-1" || line["trace_id"] != traceID || line["span_id"] == nil) {
			t.Errorf("%v does not name its request", line)
		}
	}
	if l := lines[1]; l["status"] != 418.0 || l["path"] != "/pot" || l["bytes"] != 15.0 || l["method"] != "GET" {
		t.Errorf("the request is logged as %v", l)
	}
	if lines[2]["request_id"] != nil || lines[2]["trace_id"] != nil {
		t.Errorf("%v names a request", lines[2])
	}
}

// TestStreamsStayStreams: what writers can do they can do behind all of it,
// over a real connection.
func TestStreamsStayStreams(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	next := make(chan struct{})
	server := httptest.NewServer(tracing.RequestIDs(tr.Handler(tracing.AccessLog(quiet, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "one")
		if r.URL.Path == "/controller" {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		} else {
			w.(http.Flusher).Flush()
		}
		<-next
		fmt.Fprint(w, "two")
	})))))
	defer server.Close()
	for _, path := range []string{"/controller", "/flusher"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 3)
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "one" {
			t.Fatalf("%s: %q, %v", path, first, err)
		}
		next <- struct{}{}
		rest, err := io.ReadAll(response.Body)
		if err != nil || string(rest) != "two" {
			t.Fatalf("%s: %q, %v", path, rest, err)
		}
		response.Body.Close()
	}
	r.got(t, tr)
}

func ExampleRequestIDs() {
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	h := tracing.RequestIDs(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		log.WarnContext(r.Context(), "the kettle is empty")
	}))
	r := httptest.NewRequest("GET", "/tea", nil)
	r.Header.Set("X-Request-Id", "b7ad6b71")
	h.ServeHTTP(httptest.NewRecorder(), r)
	// Output: level=WARN msg="the kettle is empty" request_id=b7ad6b71
}
